// What the page does without the server: keys, downloads, and text that reads and copies as it was written.
(() => {
  const JOINER = /([<&])\u2060/g; // keeps the markdown renderer from taking text for tags; never leaves the page
  const NOTES = /\n?\u2063[\s\S]*$/; // lines of numbers below an answer
  const WIDE = 1100; // pixels; below, the settings would cover the chat

  const clean = (text) => text.replace(NOTES, "").replace(JOINER, "$1");

  const showAsWritten = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.includes("\u2060")) node.data = node.data.replace(JOINER, "$1");
    }
  };

  const watchChat = () => {
    new MutationObserver((changes) => {
      for (const change of changes) for (const node of change.addedNodes) showAsWritten(node);
    }).observe(document.body, { childList: true, subtree: true });
  };

  const copyAsWritten = () => {
    const clipboard = navigator.clipboard;
    if (!clipboard) return; // an insecure origin has none
    const write = clipboard.writeText.bind(clipboard);
    clipboard.writeText = (text) => write(clean(text));
  };

  const STOP_BUTTONS = "#box .stop-button, #compare-stop, #fidelity-stop, #branch-stop";

  const stopOnEscape = (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    [...document.querySelectorAll(STOP_BUTTONS)].find((button) => button.offsetParent)?.click();
  };

  const openSettings = () => {
    const toggle = document.querySelector("#sidebar .toggle-button");
    if (!toggle) return setTimeout(openSettings, 50);
    if (window.innerWidth >= WIDE) toggle.click();
  };

  const followTabs = (event) => { // the style sheets put away what belongs to another tab
    const tab = event.target.closest?.("#tabs > .tab-wrapper [role=tab]");
    if (tab) document.body.dataset.tab = tab.textContent.trim().toLowerCase();
  };

  const download = (file) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([file.text], { type: file.type }));
    link.download = file.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  window.myserve = { download };
  document.addEventListener("keydown", stopOnEscape);
  document.addEventListener("click", followTabs);
  const start = () => { watchChat(); copyAsWritten(); openSettings(); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
