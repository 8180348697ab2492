/** Orders steps so that each comes after those that it depends on; otherwise they stay in their order. */
export function orderByDependency(
  names: readonly string[],
  dependsOn: (name: string) => readonly string[],
): {
  readonly names: readonly string[]
  /** A step that depends on itself through others. It and the steps that need it are left out. */
  readonly cycle: string | undefined
} {
  const left = new Set(names)
  const ordered: string[] = []
  while (left.size > 0) {
    const next = [...left].find((name) => dependsOn(name).every((one) => !left.has(one)))
    if (next === undefined) break
    left.delete(next)
    ordered.push(next)
  }
  return { names: ordered, cycle: [...left][0] }
}
