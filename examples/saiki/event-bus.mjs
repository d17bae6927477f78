// An agentEventBus over the gateway's WebSocket, for a user interface that was written for one.
// Runs in browsers, which are signed in by cookie, and in Node 22 or newer, with a bearer token.

const PREFIX = 'saiki:';
const LONGEST_PAUSE = 10_000;

export class AgentEventBus {
  #handlers = new Map();
  #shown = new Set();
  #pause = 250;
  #closed = false;
  #away = false;

  // `url` is ws(s)://HOST/api/tool-confirmation; `token` is what signing in returned.
  constructor(url, { token } = {}) {
    this.url = url;
    this.options = token ? [{ headers: { Authorization: `Bearer ${token}` } }] : [];
    this.#connect();
  }

  on(name, handler) {
    this.#handlers.set(name, [...(this.#handlers.get(name) ?? []), handler]);
  }

  // An answer that could not be sent is told as `saiki:error`; its request is handed out again.
  emit(name, data) {
    if (this.socket.readyState !== WebSocket.OPEN) {
      this.#shown.delete(data.executionId);
      this.#tell('saiki:error', { error: 'not sent: the gateway is away', executionId: data.executionId });
      return;
    }
    this.socket.send(JSON.stringify({ type: name.slice(PREFIX.length), data }));
  }

  close() {
    this.#closed = true;
    this.socket.close();
  }

  #connect() {
    this.socket = new WebSocket(this.url, ...this.options);
    let opened = false, ended = false;
    this.socket.onopen = () => { opened = true; this.#away = false; this.#pause = 250; };
    this.socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    // Node tells an error alone, browsers tell both, where no connection could be made.
    this.socket.onerror = this.socket.onclose = () => {
      if (ended || this.#closed) return;
      ended = true;
      if (!opened && !this.#away) {
        this.#away = true;
        this.#tell('saiki:error', { error: `${this.url}: the gateway is away, or refuses the token` });
      }
      setTimeout(() => this.#closed || this.#connect(), this.#pause);
      this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
    };
  }

  // After a reconnection the gateway sends again what waits; each is handed out once.
  #receive({ type, data }) {
    if (type === 'toolConfirmationRequest') {
      if (this.#shown.has(data.executionId)) return;
      this.#shown.add(data.executionId);
      data.timestamp = new Date(data.timestamp);
    } else if (type === 'toolConfirmationResponse') {
      this.#shown.delete(data.executionId);
    }
    this.#tell(PREFIX + type, data);
  }

  #tell(name, data) {
    const handlers = this.#handlers.get(name) ?? [];
    if (name === 'saiki:error' && !handlers.length) console.error(`${name}: ${data.error}`);
    for (const handler of handlers) handler(data);
  }
}
