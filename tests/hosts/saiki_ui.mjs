// A user interface that knows the document alone: node saiki_ui.mjs EVENT-BUS URL [TOKEN]
// Commands come as lines of JSON on stdin; what it hears leaves as lines of JSON on stdout.

import { createInterface } from 'node:readline';

const [, , eventBus, url, token] = process.argv;
const { AgentEventBus } = await import(eventBus);
const path = '/api/tool-confirmation';
const socketUrl = url.replace(/^http/, 'ws') + path;
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

class Confirmations {
  constructor(bus) {
    this.bus = bus;
    bus.on('saiki:toolConfirmationRequest', (event) =>
      say({ asked: event, dated: event.timestamp instanceof Date }));
    bus.on('saiki:toolConfirmationResponse', (event) => say({ ended: event }));
    bus.on('saiki:error', (event) => say({ refused: event }));
  }

  answer(response) {
    this.bus.emit('saiki:toolConfirmationResponse', response);
  }
}

async function post(executionId, body, headers) {
  const response = await fetch(`${url}${path}/${executionId}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  say({ posted: response.status, answer: await response.json() });
}

// What a stranger, or a page of another site, gets from a WebSocket of its own.
function intrude(frame, headers) {
  const socket = new WebSocket(socketUrl, { headers });
  socket.onopen = () => { socket.send(JSON.stringify(frame)); say({ intruded: true }); };
  socket.onerror = () => say({ intruded: false });
}

const confirmations = new Confirmations(new AgentEventBus(socketUrl, { token }));
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = JSON.parse(line);
  if (verb === 'answer') confirmations.answer(...words);
  if (verb === 'post') await post(...words);
  if (verb === 'intrude') intrude(...words);
}
process.exit(0);
