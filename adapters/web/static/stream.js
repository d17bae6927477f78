// The live stream: told what changed, and sure that silence means no change.
import { signedOut } from "./api.js";

const MISSED_BEATS = 2.5;
const SLOWEST_SECONDS = 15;

// `state(up, why)` is called when the connection comes or goes; `ready` before it comes, to read
// everything anew: nothing can fall between the two.
export async function follow({ ready, changed, state, news = () => {} }) {
  for (let pause = 0.5; ; pause = Math.min(pause * 2, SLOWEST_SECONDS)) {
    const why = await once(async () => { await ready(); state(true); pause = 0.5; }, changed, news).catch(() => "");
    state(false, why);
    await rest(pause);
  }
}

async function once(ready, changed, news) {
  const stop = new AbortController();
  let heard = Date.now(), patience = 30000;
  // A line that died without a word, as after sleep or in a tunnel, looks like a quiet one.
  const watchdog = setInterval(() => { if (Date.now() - heard > patience) stop.abort(); }, 1000);
  const wake = () => { if (!document.hidden && Date.now() - heard > patience) stop.abort(); };
  document.addEventListener("visibilitychange", wake);
  try {
    const answer = await fetch("/inbox/api/changes", { signal: stop.signal });
    if (answer.status === 401) await signedOut();
    if (!answer.ok) return (await answer.json()).detail;
    for await (const { name, data } of messages(answer.body)) {
      heard = Date.now();
      if (name === "ready") {
        patience = data.beat * 1000 * MISSED_BEATS;
        await ready();
        heard = Date.now();
      } else if (name === "changed") changed(data.id, data.type);
      else if (name === "news") news(data);
    }
    return "";
  } finally {
    clearInterval(watchdog);
    document.removeEventListener("visibilitychange", wake);
    stop.abort();
  }
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part);
      yield { name, data: JSON.parse(data) };
    }
  }
}

function rest(seconds) {
  return new Promise((done) => {
    const timer = setTimeout(done, seconds * 1000);
    addEventListener("online", () => { clearTimeout(timer); done(); }, { once: true });
  });
}
