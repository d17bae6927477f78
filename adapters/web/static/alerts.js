// What calls somebody back to the page.
export function ring(text, settings) {
  if (settings.sound.checked) beep();
  // A lock screen shows it to anyone: no arguments, no names.
  if (settings.notify.checked && document.hidden && Notification.permission === "granted") {
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
