/** Replaced by the MathML of the formula while the page is built; see plugins/formulas.ts. */
declare function tex(formula: TemplateStringsArray): string;

declare module "*.css";
