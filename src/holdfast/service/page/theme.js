// Light, dark or as the system has it; this browser remembers. A plain script in the head, so that no page is drawn in the wrong one first.
(() => {
  const themes = ["auto", "light", "dark"], root = document.documentElement;
  let theme = "auto";
  try {
    theme = localStorage.getItem("theme") || theme;
  } catch { /* a browser that keeps nothing begins with auto each time */ }

  function apply(button) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    if (button) button.textContent = `Theme: ${theme}`;
  }

  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    apply(button);
    button.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      apply(button);
      try {
        localStorage.setItem("theme", theme);
      } catch { /* then it holds until the page is left */ }
    });
  });
})();
