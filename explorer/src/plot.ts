/** A canvas with two axes: the little that the panels need, drawn sharply on any screen. */

import type { ScaleContinuousNumeric } from "d3-scale";

import { exponentOfTen, short } from "./numbers";
import { colorOf, type Style } from "./palette";
import { Reader, type Read } from "./reader";

export type Scale = ScaleContinuousNumeric<number, number>;

export interface Axes {
  readonly x: Scale;
  readonly y: Scale;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly xIsLog?: boolean;
  readonly yIsLog?: boolean;
  readonly xTicks?: number;
  readonly yTicks?: number;
  /** The ticks themselves, where a scale knows none that fit. */
  readonly yValues?: readonly number[];
  /** Without lines across, over pictures that they would hide. */
  readonly isBare?: boolean;
}

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

const SMALL_FONT = FONT.replace("12px", "9px");

export interface Margin {
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly left: number;
}

/** Pixels off the screen that are drawn all the same, so that scrolling never meets an empty canvas. */
const NEARLY = 150;

const ROOM_FOR_AXES: Margin = { top: 22, right: 12, bottom: 36, left: 46 };

export class Plot {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  readonly margin: Margin;
  width = 0;
  height = 0;
  readonly reader: Reader;
  /** Whether any of it is on the screen, or nearly: what nobody sees is not drawn. */
  isVisible: boolean;

  constructor(canvas: HTMLCanvasElement, redraw: () => void, margin: Margin = ROOM_FOR_AXES) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d")!;
    this.margin = margin;
    this.reader = new Reader(canvas);
    const box = canvas.getBoundingClientRect();
    this.isVisible = box.top < window.innerHeight + NEARLY && box.bottom > -NEARLY;
    new ResizeObserver(redraw).observe(canvas);
    new IntersectionObserver(
      (entries) => {
        this.isVisible = entries[entries.length - 1].isIntersecting;
        if (this.isVisible) redraw();
      },
      { rootMargin: `${NEARLY}px` },
    ).observe(canvas);
  }

  get left(): number {
    return this.margin.left;
  }
  get right(): number {
    return this.width - this.margin.right;
  }
  get top(): number {
    return this.margin.top;
  }
  get bottom(): number {
    return this.height - this.margin.bottom;
  }

  /** Clears the canvas in the size it has now; false where there is nothing to draw on. */
  begin(): boolean {
    if (!this.isVisible) return false;
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === 0 || clientHeight === 0) return false;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.width = clientWidth;
    this.height = clientHeight;
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, clientWidth, clientHeight);
    c.font = FONT;
    c.lineJoin = "round";
    return true;
  }

  /** What hovering and the arrow keys read, until the next drawing. */
  readBy(read: Read): void {
    this.reader.read = (x, y) =>
      x < this.left - 4 || x > this.right + 4 || y < this.top - 12 || y > this.bottom + 12 ? null : read(x, y);
    this.reader.refresh();
  }

  axes(axes: Axes): void {
    const {
      x,
      y,
      xLabel,
      yLabel,
      xIsLog = false,
      yIsLog = false,
      xTicks = 5,
      yTicks = 4,
      yValues,
      isBare = false,
    } = axes;
    const c = this.context;
    c.lineWidth = 1;
    c.setLineDash([]);
    c.strokeStyle = colorOf("--grid");
    c.fillStyle = colorOf("--muted");
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const tick of yValues ?? y.ticks(yTicks)) {
      const at = Math.round(y(tick)) + 0.5;
      if (at < this.top - 1 || at > this.bottom + 1 || (yIsLog && exponentOfTen(tick) === null)) continue;
      c.beginPath();
      c.moveTo(this.left, at);
      c.lineTo(isBare ? this.left - 4 : this.right, at);
      c.stroke();
      this.#tick(tick, yIsLog, this.left - 6, at, "right");
    }
    const enough = Math.max(2, Math.min(xTicks, Math.floor((this.right - this.left) / 60)));
    for (const tick of x.ticks(enough)) {
      if (xIsLog && exponentOfTen(tick) === null) continue;
      const at = Math.round(x(tick)) + 0.5;
      c.beginPath();
      c.moveTo(at, this.bottom);
      c.lineTo(at, this.bottom + 4);
      c.stroke();
      this.#tick(tick, xIsLog, at, this.bottom + 12, "center");
    }
    c.beginPath();
    c.moveTo(this.left, this.bottom + 0.5);
    c.lineTo(this.right, this.bottom + 0.5);
    c.stroke();
    c.fillStyle = colorOf("--ink");
    c.textAlign = "right";
    c.textBaseline = "alphabetic";
    c.fillText(xLabel, this.right, this.height - 4);
    c.textAlign = "left";
    c.fillText(yLabel, 2, 12);
  }

  /** The number of a tick, inside the canvas; powers of ten with a raised exponent, which no font has to have. */
  #tick(value: number, isLog: boolean, x: number, y: number, align: "right" | "center"): void {
    const c = this.context;
    const power = isLog ? exponentOfTen(value)! : 0;
    const isPower = isLog && (power < -2 || power > 3);
    const text = isPower ? "10" : isLog ? String(Number(value.toPrecision(1))) : short(value);
    const raised = isPower ? String(power).replace("-", "−") : "";
    const width = c.measureText(text).width;
    c.font = SMALL_FONT;
    const more = isPower ? c.measureText(raised).width : 0;
    const left = align === "right" ? x - width - more : x - (width + more) / 2;
    const inside = Math.max(1, Math.min(this.width - 1 - width - more, left));
    c.textAlign = "left";
    c.textBaseline = "middle";
    if (isPower) c.fillText(raised, inside + width, y - 5);
    c.font = FONT;
    c.fillText(text, inside, y);
  }

  /** Draws inside the axes only. */
  inside(draw: () => void): void {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(this.left, this.top - 3, this.right - this.left, this.bottom - this.top + 3);
    c.clip();
    draw();
    c.restore();
  }

  /** A line through n points; those that are not finite are left out. */
  line(n: number, at: (i: number) => readonly [number, number], style: LineStyle): void {
    const c = this.context;
    c.beginPath();
    let down = false;
    for (let i = 0; i < n; i++) {
      const [x, y] = at(i);
      if (!Number.isFinite(x) || !Number.isFinite(y)) {
        down = false;
        continue;
      }
      // Beyond these a canvas draws nonsense.
      const [u, v] = [Math.max(-1e4, Math.min(1e4, x)), Math.max(-1e4, Math.min(1e4, y))];
      if (down) c.lineTo(u, v);
      else c.moveTo(u, v);
      down = true;
    }
    c.strokeStyle = colorOf(style.color);
    c.lineWidth = style.width ?? 2;
    c.globalAlpha = style.alpha ?? 1;
    c.setLineDash([...(style.dash ?? [])]);
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }

  /** The area between two lines. */
  band(
    n: number,
    x: (i: number) => number,
    low: (i: number) => number,
    high: (i: number) => number,
    color: string,
  ): void {
    const c = this.context;
    c.beginPath();
    for (let i = 0; i < n; i++) c.lineTo(x(i), clip(high(i)));
    for (let i = n - 1; i >= 0; i--) c.lineTo(x(i), clip(low(i)));
    c.closePath();
    c.fillStyle = colorOf(color);
    c.globalAlpha = 0.16;
    c.fill();
    c.globalAlpha = 1;
  }

  /** Text with a halo, so that it stays readable over lines. */
  label(text: string, x: number, y: number, color = "--ink", align: CanvasTextAlign = "left"): void {
    const c = this.context;
    const half = c.measureText(text).width / 2;
    const middle = align === "left" ? x + half : align === "right" ? x - half : x;
    const inside = Math.max(2 + half, Math.min(this.width - 2 - half, middle));
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.lineJoin = "round";
    c.lineWidth = 4;
    c.strokeStyle = colorOf("--surface");
    c.strokeText(text, inside, y);
    c.fillStyle = colorOf(color);
    c.fillText(text, inside, y);
  }

  /** A point of a method, in its own shape. */
  marker({ marker, color }: Pick<Style, "marker" | "color">, x: number, y: number, size = 6): void {
    if (marker === "none" || !Number.isFinite(x) || !Number.isFinite(y)) return;
    const c = this.context;
    c.beginPath();
    if (marker === "circle") c.arc(x, y, size, 0, 2 * Math.PI);
    else if (marker === "square") c.rect(x - 0.85 * size, y - 0.85 * size, 1.7 * size, 1.7 * size);
    else {
      const corners = marker === "triangle" ? [-90, 30, 150] : [-90, 0, 90, 180];
      for (const degrees of corners) {
        const angle = (degrees * Math.PI) / 180;
        c.lineTo(x + 1.2 * size * Math.cos(angle), y + 1.2 * size * Math.sin(angle));
      }
      c.closePath();
    }
    c.fillStyle = colorOf(color);
    c.fill();
    c.lineWidth = 1.5;
    c.strokeStyle = colorOf("--surface");
    c.stroke();
  }

  arrow(x: number, y: number, dx: number, dy: number, color: string, width: number): void {
    const length = Math.hypot(dx, dy);
    if (!(length > 4)) return;
    const c = this.context;
    const [ux, uy] = [dx / length, dy / length];
    const head = Math.min(9, length / 2);
    for (const [stroke, extra] of [
      ["--surface", 2.5],
      [color, 0],
    ] as const) {
      c.strokeStyle = c.fillStyle = colorOf(stroke);
      c.lineWidth = width + extra;
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x + dx - head * ux, y + dy - head * uy);
      c.stroke();
      c.beginPath();
      c.moveTo(x + dx + (extra / 2) * ux, y + dy + (extra / 2) * uy);
      c.lineTo(x + dx - head * ux - head * 0.5 * uy, y + dy - head * uy + head * 0.5 * ux);
      c.lineTo(x + dx - head * ux + head * 0.5 * uy, y + dy - head * uy - head * 0.5 * ux);
      c.closePath();
      c.fill();
    }
  }
}

export interface LineStyle {
  readonly color: string;
  readonly width?: number;
  readonly dash?: readonly number[];
  readonly alpha?: number;
}

function clip(y: number): number {
  return Number.isFinite(y) ? Math.max(-1e4, Math.min(1e4, y)) : 1e4;
}
