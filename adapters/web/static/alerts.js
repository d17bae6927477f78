// What calls somebody back to the page. Both are off until they are chosen, on every page alike.
export const chosen = (name, otherwise = "off") => (localStorage.getItem(name) ?? otherwise) === "on";

export function ring(text) {
  if (chosen("sound")) beep();
  // A lock screen shows it to anyone: no arguments, no names.
  if (chosen("notify") && document.hidden && Notification.permission === "granted") {
    const shown = new Notification("Approval needed", { body: text, tag: "approval" });
    shown.onclick = () => { window.focus(); shown.close(); };
  }
}

function beep() {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  tone.connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + 0.12);
  tone.onended = () => audio.close();
}
