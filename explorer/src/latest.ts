/** Results that are computed again only when what they depend on has changed. */

/** The function, keeping its latest result for as long as its arguments stay the same. */
export function keepLatest<Arguments extends readonly unknown[], Result>(
  compute: (...args: Arguments) => Result,
): (...args: Arguments) => Result {
  let known: { args: Arguments; result: Result } | null = null;
  return (...args) => {
    if (known === null || args.some((each, i) => each !== known!.args[i])) known = { args, result: compute(...args) };
    return known.result;
  };
}
