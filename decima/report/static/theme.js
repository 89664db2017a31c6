// Light and dark: as the system says, until the button is used. `recolour` is the page's own.

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function labelTheme() {
  const button = document.getElementById("theme");
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(isDark()));
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  labelTheme();
  recolour();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  labelTheme();
  recolour();
});
// Paper is white.
let beforePrint;
window.addEventListener("beforeprint", () => {
  beforePrint = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  recolour();
});
window.addEventListener("afterprint", () => {
  if (beforePrint === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = beforePrint;
  recolour();
});

labelTheme();
