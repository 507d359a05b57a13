// Token chips: values under the pointer or the keyboard, one tab stop for each answer, and a choice to branch from.
const details = () => element.querySelector(".chip-details");
const chipOf = (event) => event.target.closest?.(".chip");

const tell = (chip) => { details().textContent = chip.title; };

const choose = (chip) => {
  element.querySelectorAll(".chip.chosen").forEach((other) => other.classList.remove("chosen"));
  chip.classList.add("chosen");
  tell(chip);
  trigger("select", { index: Number(chip.dataset.index), value: chip.dataset.side });
};

const neighbour = (chip, key) => {
  const chips = [...chip.parentElement.querySelectorAll(".chip")];
  const place = chips.indexOf(chip);
  const steps = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: chips.length - 1 };
  return chips[steps[key]];
};

element.addEventListener("mouseover", (event) => { const chip = chipOf(event); if (chip) tell(chip); });
element.addEventListener("focusin", (event) => { const chip = chipOf(event); if (chip) tell(chip); });
element.addEventListener("click", (event) => { const chip = chipOf(event); if (chip) choose(chip); });
element.addEventListener("keydown", (event) => {
  const chip = chipOf(event);
  if (!chip) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return choose(chip); }
  const next = neighbour(chip, event.key);
  if (!next) return;
  event.preventDefault();
  chip.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
