// What the page does without the server: keys, downloads, and text that reads and copies as it was written.
(() => {
  const JOINER = /([<&!])\u2060/g; // keeps the markdown renderer from taking text for tags and images; never leaves the page
  const JOINED_ADDRESS = /([<&!]|%3C)(\u2060|%E2%81%A0)/gi;
  const NOTES = /\n?\u2063[\s\S]*$/; // lines of numbers below an answer
  const WIDE = 1100; // pixels; below, the settings would cover the chat

  const clean = (text) => text.replace(NOTES, "").replace(JOINER, "$1");

  const showAsWritten = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let before = ""; // highlighting puts `<` into an element of its own
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const isYetToBeDrawn = node.parentElement?.closest(".mermaid:not([data-processed])");
      if (node.data.includes("\u2060") && !isYetToBeDrawn) {
        const joined = before + node.data;
        node.data = joined.replace(JOINER, "$1").slice(before.length);
      }
      before = node.data.slice(-1);
    }
  };

  // An image is a link to it: nothing is fetched from anywhere because a model, or a saved chat, says so.
  const markImageLinks = (root) => {
    for (const link of root.querySelectorAll("a[href]")) {
      const written = link.getAttribute("href");
      const href = written.replace(JOINED_ADDRESS, "$1");
      if (href !== written) link.setAttribute("href", href);
      const before = link.previousSibling;
      if (before?.nodeType !== Node.TEXT_NODE || !before.data.endsWith("!\u2060")) continue;
      before.data = before.data.slice(0, -2);
      dressImageLink(link);
    }
  };

  const dressImageLink = (link) => {
    const { host = "", pathname = "" } = parseAddress(link.href) ?? {};
    link.classList.add("image-link");
    link.title = `An image on ${host || "another server"}, which this page does not load. Opens in a new tab.`;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    if (!link.textContent.trim()) link.textContent = host + pathname;
  };

  // The same for what the renderer made of tags all the same; the page's policy has refused to load it by then.
  const FETCHING = "img, image, video, audio, iframe, object, embed, input[type=image]";
  const ADDRESSES = ["src", "href", "xlink:href", "data", "poster", "srcset"];

  const linkInstead = (root) => {
    for (const element of root.querySelectorAll(FETCHING)) {
      const address = element.closest(".md, .toast-body") && addressElsewhere(element);
      if (!address) continue;
      const link = document.createElement("a");
      link.href = address;
      link.textContent = element.getAttribute("alt") || "";
      dressImageLink(link);
      const drawing = element.closest("svg"); // which cannot hold such a link
      if (drawing) drawing.after(link);
      if (drawing) element.remove();
      else element.replaceWith(link);
    }
  };

  const addressElsewhere = (element) => {
    const sources = [element, ...element.querySelectorAll("source")];
    const values = sources.flatMap((source) => ADDRESSES.map((name) => source.getAttribute(name)));
    const addresses = values.filter(Boolean).map((value) => parseAddress(value.trim().split(/\s/)[0]));
    return addresses.find((address) => address && address.origin !== location.origin)?.href;
  };

  const parseAddress = (text) => {
    const address = URL.canParse(text, document.baseURI) ? new URL(text, document.baseURI) : null;
    return address && /^https?:$/.test(address.protocol) ? address : null;
  };

  const settleText = (node) => {
    if (node.nodeType === Node.ELEMENT_NODE) {
      markImageLinks(node);
      linkInstead(node);
    }
    showAsWritten(node);
  };

  const watchPage = () => {
    new MutationObserver((changes) => {
      for (const change of changes) for (const node of change.addedNodes) settleText(node);
      nameButtons();
      grantStop();
    }).observe(document.body, { childList: true, subtree: true });
  };

  const copyAsWritten = () => {
    const clipboard = navigator.clipboard;
    if (!clipboard) return; // an insecure origin has none
    const write = clipboard.writeText.bind(clipboard);
    clipboard.writeText = (text) => write(clean(text));
  };

  // What the box gains in height the chat gives, so that both stay in the window.
  const makeRoom = () => {
    const box = document.querySelector("#box");
    if (!box) return setTimeout(makeRoom, 50);
    const lowest = box.offsetHeight;
    new ResizeObserver(() => {
      document.body.style.setProperty("--box-growth", `${Math.max(0, box.offsetHeight - lowest)}px`);
    }).observe(box);
  };

  // A turn: Gradio can cancel it only once the server has answered, which the server does with a stop button. A stop
  // that is wanted sooner waits for that; until then the send button looks and works like the stop button.
  let isAsked = false;
  let stopWanted = false;
  const stopButton = () => document.querySelector("#box .stop-button");
  const sendButton = () => document.querySelector("#box .submit-button");

  const nameButtons = () => {
    name(stopButton(), "Stop");
    name(sendButton(), isAsked ? "Stop" : "Send");
    sendButton()?.classList.toggle("asked", isAsked);
  };

  const name = (button, words) => {
    if (!button || button.title === words) return;
    button.title = words;
    button.setAttribute("aria-label", words);
  };

  const grantStop = () => {
    if (!stopWanted || !stopButton()) return;
    stopWanted = false;
    stopButton().click();
  };

  const stop = () => { stopWanted = true; grantStop(); };

  const asked = (values) => { isAsked = true; nameButtons(); return values; };

  const over = () => { isAsked = stopWanted = false; nameButtons(); };

  const afterStop = async (values) => {
    if (isAsked || stopButton()) stop();
    while (isAsked || stopButton()) await new Promise((done) => setTimeout(done, 30));
    return values;
  };

  const OTHER_STOPS = "#compare-stop, #fidelity-stop, #branch-stop, #bench-stop";

  const stopOnEscape = (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    const other = [...document.querySelectorAll(OTHER_STOPS)].find((button) => button.offsetParent);
    if (other) other.click(); else stop();
  };

  // Whatever asks is a key or a button: a stop that was wanted before it is not meant for it.
  const forgetStop = (event) => {
    if (!isAsked && (event.key === "Enter" || event.target.closest?.("button"))) stopWanted = false;
  };

  const stopOnAskedSend = (event) => {
    if (!isAsked || !event.target.closest?.("#box .submit-button")) return;
    event.stopPropagation();
    stop();
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

  // All tabs of a browser share the kept chat: each tells the others that it is there.
  const tellOtherTabs = () => {
    const tabs = new BroadcastChannel("myserve-chat");
    const hide = () => document.querySelector("#elsewhere")?.remove();
    let isLeaving = false; // a closing tab still hears the others for a while, and must not say that it is there
    tabs.onmessage = ({ data }) => {
      if (isLeaving) return;
      if (data === "left") { hide(); return tabs.postMessage("anyone?"); }
      if (data === "anyone?") tabs.postMessage("here");
      showElsewhere();
    };
    addEventListener("pagehide", () => { isLeaving = true; tabs.postMessage("left"); });
    addEventListener("pageshow", ({ persisted }) => {
      if (!persisted) return;
      isLeaving = false;
      hide();
      tabs.postMessage("anyone?");
    });
    tabs.postMessage("anyone?");
  };

  const showElsewhere = () => {
    if (document.querySelector("#elsewhere")) return;
    const notice = document.createElement("p");
    notice.id = "elsewhere";
    notice.setAttribute("role", "status");
    notice.textContent = "This page is open in another tab too. They share one kept chat: the tab that writes last is the one that a reload brings back.";
    document.body.append(notice);
  };

  const download = (file) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([file.text], { type: file.type }));
    link.download = file.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  window.myserve = { download, asked, over, afterStop };
  document.addEventListener("keydown", stopOnEscape);
  document.addEventListener("click", followTabs);
  document.addEventListener("keydown", forgetStop, true);
  document.addEventListener("click", forgetStop, true);
  document.addEventListener("click", stopOnAskedSend, true);
  const start = () => { watchPage(); nameButtons(); copyAsWritten(); openSettings(); makeRoom(); tellOtherTabs(); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
