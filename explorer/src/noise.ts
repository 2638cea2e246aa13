/** Standard normal numbers from a seed: the same seed gives the same noise to every method. */

/** Mulberry32: uniform numbers in [0, 1), from 32 bits of state. Fast, and good enough to look at. */
function uniforms(seed: number): () => number {
  let a = (seed * 0x9e3779b1 + 0x6d2b79f5) | 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function normals(count: number, seed: number): Float32Array {
  const next = uniforms(seed);
  const z = new Float32Array(count + (count % 2));
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next()));
    const angle = 2 * Math.PI * next();
    z[i] = radius * Math.cos(angle);
    z[i + 1] = radius * Math.sin(angle);
  }
  return z;
}
