/** Formulas become MathML while the page is built, so that it carries neither KaTeX nor its fonts. */

import katex from "katex";
import type { Plugin } from "vite";

const IN_SOURCE = /\btex`([^`]*)`/g;
const IN_PAGE = /\\\((.+?)\\\)/g;

export function mathml(formula: string): string {
  const html = katex.renderToString(formula, { output: "mathml", throwOnError: true, strict: "error" });
  // The annotation repeats the TeX for copying; it doubles the size, and some screen readers read it aloud.
  return (
    html
      .replace(/<annotation[^>]*>.*?<\/annotation>/gs, "")
      .replace(/<\/?semantics>/g, "")
      // A thin space after log and its like, unless a bracket follows: TeX sets it by itself, MathML does not.
      .replace(/<mo>\u2061<\/mo>(?!<mo[^>]*>\()/g, '<mo>\u2061</mo><mspace width="0.1667em"></mspace>')
      // Browsers know this variant by its characters only.
      .replace(/<mi mathvariant="double-struck">E<\/mi>/g, "<mi>𝔼</mi>")
      .replace(/^<span class="katex">|<\/span>$/g, "")
  );
}

export function formulas(): Plugin {
  return {
    name: "formulas-as-mathml",
    enforce: "pre",
    transform(code, id) {
      if (!id.endsWith(".ts") || !code.includes("tex`")) return null;
      return { code: code.replace(IN_SOURCE, (_, formula: string) => JSON.stringify(mathml(formula))), map: null };
    },
    transformIndexHtml: {
      order: "pre",
      handler: (html) => html.replace(IN_PAGE, (_, formula: string) => mathml(formula)),
    },
  };
}
