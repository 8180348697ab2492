/** Drops undefined fields, so that spreading the result never overwrites an earlier value with undefined. */
export function dropUndefined<T extends object>(
  partial: T | undefined,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const given = Object.entries(partial ?? {}).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
