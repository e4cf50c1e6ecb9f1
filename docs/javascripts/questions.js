/* Lets the search of the site take questions, and the words that people have for a thing.

   The search wants every word that was typed in one section. So the small words of a question are
   left out, and if no section has all of the rest, the words that the best section has are sought.
   The last table of the glossary names words and the page or the term for them, and these words
   count as words of the title there: `make site` writes the table before this text, as
   `otherWords`, and the sections of the glossary's terms as `sectionOfTerm`. A published test
   counts with its title only, because its tables of waits and settings have nearly every word.
   Pages that answer come before pages that list. */
(() => {
  "use strict";
  const SMALL = new RegExp(
    "^(an?|and|are|at|be|can|database|db|do|does|for|from|get|has|have|how|i|in|is|it|its|me"
    + "|my|of|on|or|our|postgres|postgresql|server|should|so|that|the|there|this|to|use|wh\\w+|with"
    + "|your)$",
  );
  const LAST = /^(examples\/|examples|cli|errors|prove-summary|performance|adding)/;
  const site = new URL("..", document.currentScript.src).href;
  const placeOf = (item) => item.location.replace(site, "");
  const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}.]+/u).filter(Boolean);
  const plain = (html) => html.replace(/<[^>]*>/g, " ");

  /* The page of a term, the section that has its name, or the part of the glossary that has it. */
  function itemOf(items, term) {
    return items.find((item) => placeOf(item) === `${term}.html`)
      || items.find((item) => item.title.toLowerCase() === term)
      || items.find((item) => placeOf(item) === `glossary.html#${sectionOfTerm[term]}`);
  }

  function withOtherWords(items) {
    const places = new Map(otherWords.map(([, term]) => [term, itemOf(items, term)]));
    return items.map((item) => {
      const page = placeOf(item);
      if (/^examples\/|#other-words$/.test(page)) return { ...item, text: "" };
      const words = otherWords.filter((row) => places.get(row[1]) === item).map((row) => row[0]);
      const names = words.join(", ").split(", ");
      if (!page.includes("#")) words.push(page.replace(".html", ""));
      return words.length ? { ...item, title: `${item.title} ${words.join(" ")}`, names } : item;
    });
  }

  class Section {
    constructor(item) {
      this.page = placeOf(item);
      this.names = (item.names || []).map((name) => wordsOf(name).join(" "));
      this.title = wordsOf(item.title);
      this.text = [...this.title, ...wordsOf(plain(item.text))];
    }

    has(word) {
      return this.text.some((other) => other.startsWith(word));
    }

    /* How well its title answers; a whole page answers better than a part, and the place that the
       glossary names for just these words before all. */
    rank(words) {
      const isTitled = (word) => this.title.includes(word) || this.title.includes(`${word}s`);
      const titled = words.filter(isTitled).length;
      const named = this.names.includes(words.join(" ")) ? 12 : 0;
      const whole = this.page.includes("#") ? 0 : 2;
      return 4 * titled + named + whole - (LAST.test(this.page) ? 5 : 0);
    }
  }

  /* The words that the best section has; a rare word counts more than a frequent one. */
  function bestWords(sections, words) {
    const worth = new Map(words.map((word) => [
      word, 1 + 1 / (1 + sections.filter((section) => section.has(word)).length),
    ]));
    let best = { score: 0, words };
    for (const section of sections) {
      const here = words.filter((word) => section.has(word));
      const score = here.reduce((sum, word) => sum + worth.get(word), section.rank(here) / 20);
      if (here.length && score > best.score) best = { score, words: here };
    }
    return best.words;
  }

  window.Worker = class extends window.Worker {
    postMessage({ type, data }) {
      if (type === 0) {
        data = { ...data, items: withOtherWords(data.items) };
        this.sections = data.items.map((item) => new Section(item));
      } else if (type === 2 && typeof data.input === "string") {
        const typed = wordsOf(data.input);
        const words = typed.filter((word) => !SMALL.test(word));
        this.words = bestWords(this.sections, words.length ? words : typed);
        data = { ...data, input: this.words.join(" ") };
      }
      super.postMessage({ type, data });
    }

    set onmessage(hear) {
      super.onmessage = hear && ((event) => hear({ data: this.ranked(event.data) }));
    }

    ranked(said) {
      if (said.type !== 3) return said;
      const rank = (item) => this.sections[item.id].rank(this.words);
      const items = [...said.data.items].sort((one, other) => rank(other) - rank(one));
      return { ...said, data: { ...said.data, items } };
    }
  };
})();
