// Gathers what changes: the first is worked on at once, what comes meanwhile together a moment later.
const CALM_MS = 1000;
const SHARE = 10; // work takes at most this part of the time, however much happens

export function gather(work) {
  const changes = new Map();
  let busy = false;
  async function drain() {
    busy = true;
    while (changes.size) {
      const all = [...changes], began = performance.now();
      changes.clear();
      try {
        await work(all);
      } catch {
        break; // the stream breaks too, and everything is read again
      }
      const took = performance.now() - began;
      await new Promise((done) => setTimeout(done, Math.max(CALM_MS, SHARE * took)));
    }
    busy = false;
  }
  return (id, type) => {
    changes.set(id, changes.get(id) === "submitted" ? "submitted" : type);
    if (!busy) drain();
  };
}
