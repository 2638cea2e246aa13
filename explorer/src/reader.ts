/** Values read off a picture: by hovering, by a finger, or by the arrow keys while it has the focus. */

export interface Reading {
  /** Where the values are, in pixels of the canvas. */
  readonly x: number;
  readonly y?: number;
  readonly lines: readonly string[];
}

/** What a picture says about the point under the pointer; null where there is nothing. */
export type Read = (x: number, y: number) => Reading | null;

const tip = (): HTMLElement => document.getElementById("tip")!;

/** Shows text beside a point of the window. */
function showTip(lines: readonly string[], left: number, top: number): void {
  const element = tip();
  element.replaceChildren(
    ...lines.map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }),
  );
  element.hidden = false;
  const { width, height } = element.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const x = left + 14 + width > room - 4 ? left - 14 - width : left + 14;
  element.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, top - height - 10)}px)`;
}

function hideTip(): void {
  tip().hidden = true;
}

/** The reader of one canvas. */
export class Reader {
  read: Read | null = null;
  readonly #canvas: HTMLCanvasElement;
  readonly #line = document.createElement("span");
  #at: { x: number; y: number } | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#line.className = "reading";
    this.#line.hidden = true;
    canvas.parentElement!.style.position = "relative";
    canvas.after(this.#line);
    canvas.addEventListener("pointermove", (event) => this.#show(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerdown", (event) => this.#show(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("blur", () => this.hide());
    if (canvas.getAttribute("role") !== "img") return;
    canvas.tabIndex = 0;
    canvas.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 40 : 8;
      const moves: Readonly<Record<string, readonly [number, number]>> = {
        ArrowLeft: [-step, 0],
        ArrowRight: [step, 0],
        ArrowUp: [0, -step],
        ArrowDown: [0, step],
      };
      const move = moves[event.key];
      if (event.key === "Escape") this.hide();
      if (move === undefined) return;
      event.preventDefault();
      const { clientWidth: width, clientHeight: height } = canvas;
      const from = this.#at ?? { x: width / 2, y: height / 2 };
      const inside = (value: number, high: number) => Math.min(high - 14, Math.max(8, value));
      const lines = this.#show(inside(from.x + move[0], width), inside(from.y + move[1], height));
      if (lines !== null) canvas.dispatchEvent(new CustomEvent("read", { bubbles: true, detail: lines.join(", ") }));
    });
  }

  /** Where the keyboard or the pointer reads now. */
  get at(): { x: number; y: number } | null {
    return this.#at;
  }

  hide(): void {
    if (this.#at === null) return;
    this.#at = null;
    this.#line.hidden = true;
    hideTip();
  }

  /** Reads again after a redraw, while the pointer rests. */
  refresh(): void {
    if (this.#at !== null) this.#show(this.#at.x, this.#at.y);
  }

  #show(x: number, y: number): readonly string[] | null {
    this.#at = { x, y };
    const found = this.read?.(x, y) ?? null;
    this.#line.hidden = found === null;
    if (found === null) {
      hideTip();
      return null;
    }
    const box = this.#canvas.getBoundingClientRect();
    this.#line.style.transform = `translate(${this.#canvas.offsetLeft + found.x}px, ${this.#canvas.offsetTop}px)`;
    this.#line.style.height = `${box.height}px`;
    this.#line.style.visibility = found.y === undefined ? "visible" : "hidden";
    showTip(found.lines, box.left + found.x, box.top + Math.max(30, found.y ?? y));
    return found.lines;
  }
}

/** Elements with a data-tip explain themselves when they are hovered, focused or tapped. */
export function explainTerms(): void {
  const show = (event: Event) => {
    const term = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-tip]") : null;
    if (term === null) return;
    const box = term.getBoundingClientRect();
    showTip([term.dataset.tip!], box.left, box.top);
  };
  const hide = (event: Event) => {
    if (event.target instanceof Element && event.target.closest("[data-tip]") !== null) hideTip();
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, show);
  for (const kind of ["pointerout", "focusout"]) document.addEventListener(kind, hide);
}
