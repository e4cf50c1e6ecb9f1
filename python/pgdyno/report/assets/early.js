document.documentElement.classList.add("js");
try {
  const kept = localStorage.getItem("pgdyno-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  /* a file opened from disk may have no storage: the system's theme stays */
}
