// An agentEventBus over the gateway's WebSocket, for a user interface that was written for one.
// Runs in browsers, which are signed in by cookie, and in Node 22 or newer, with a bearer token.

const PREFIX = 'saiki:';
const LONGEST_PAUSE = 10_000;

export class AgentEventBus {
  #handlers = new Map();
  #shown = new Set();
  #pause = 250;
  #closed = false;

  // `url` is ws(s)://HOST/api/tool-confirmation; `token` is what signing in returned.
  constructor(url, { token } = {}) {
    this.url = url;
    this.options = token ? [{ headers: { Authorization: `Bearer ${token}` } }] : [];
    this.#connect();
  }

  on(name, handler) {
    this.#handlers.set(name, [...(this.#handlers.get(name) ?? []), handler]);
  }

  // Throws while there is no connection: an answer that was not sent must not look like one.
  emit(name, data) {
    if (this.socket.readyState !== WebSocket.OPEN) throw new Error('the gateway is not connected');
    this.socket.send(JSON.stringify({ type: name.slice(PREFIX.length), data }));
  }

  close() {
    this.#closed = true;
    this.socket.close();
  }

  #connect() {
    this.socket = new WebSocket(this.url, ...this.options);
    this.socket.onopen = () => { this.#pause = 250; };
    this.socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.socket.onerror = () => {}; // `close` follows
    this.socket.onclose = () => {
      if (this.#closed) return;
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
    for (const handler of this.#handlers.get(PREFIX + type) ?? []) handler(data);
  }
}
