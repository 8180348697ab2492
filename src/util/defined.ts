/** The fields that say something, so that what is left out does not go before what is there. */
export function defined<T extends object>(
  partial: T | undefined,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const said = Object.entries(partial ?? {}).filter(([, value]) => value !== undefined)
  return Object.fromEntries(said) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
