// A real identity provider with one client, which must use PKCE. Arguments: where the library lies,
// the port to listen at, the address to come back to. Says one line when it is up.
const [library, port, back] = process.argv.slice(2);
const { default: Provider } = await import(library);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "approvals", client_secret: "a secret / with signs:", redirect_uris: [back] }],
  pkce: { required: () => true },
  conformIdTokenClaims: false,
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  findAccount: (context, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@example.org`, email_verified: true }),
  }),
  cookies: { keys: ["a key of this test"] },
  features: { devInteractions: { enabled: true } },
});
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("up\n"));
