// A real identity provider with one client, which must use PKCE. Arguments: where the library lies,
// the port to listen at, the address to come back to. Says one line when it is up. Each line that it
// reads, a name and a JSON value, sets the groups of an account; null deactivates the account.
import { createInterface } from "node:readline";
const [library, port, back] = process.argv.slice(2);
const { default: Provider } = await import(library);

const groups = {};
createInterface({ input: process.stdin }).on("line", (line) => {
  const [, name, value] = /^(\S+) (.*)$/.exec(line);
  groups[name] = JSON.parse(value);
  process.stdout.write("set\n");
});

const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: "approvals",
    client_secret: "a secret / with signs:",
    redirect_uris: [back],
    grant_types: ["authorization_code", "refresh_token"],
  }],
  issueRefreshToken: (context, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  pkce: { required: () => true },
  conformIdTokenClaims: false,
  claims: { openid: ["sub", "groups"], email: ["email", "email_verified"] },
  findAccount: (context, id) => groups[id] === null ? undefined : {
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@example.org`, email_verified: true, groups: groups[id] }),
  },
  cookies: { keys: ["a key of this test"] },
  features: { devInteractions: { enabled: true } },
});
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("up\n"));
