/** Parses sizes and durations as people write them. */

const MIB_PER_UNIT: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['m', 1],
  ['g', 1024],
  ['t', 1024 * 1024],
])
const MS_PER_UNIT: ReadonlyMap<string, number> = new Map([
  ['', 1000],
  ['ms', 1],
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

/**
 * In MiB: `512m`, `2g`, `4GB`, `1.5GiB`. A bare number is MiB, and GB means GiB. Undefined if it is not a
 * size.
 */
export function readMib(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(?:([mgt])i?b?)?$/.exec(text.toLowerCase())
  return match ? amount(match[1], MIB_PER_UNIT.get(match[2] ?? '')) : undefined
}

/** In MiB, rounded up, as container engines write sizes: `64m`, `1g`, and a number without unit in bytes. */
export function readEngineMib(text: string): number | undefined {
  const [, number, kilo] = /^(\d{1,15})(?:(k)i?)?b?$/i.exec(text) ?? []
  if (number === undefined) return readMib(text)
  return Math.ceil((Number(number) * (kilo ? 1024 : 1)) / 1024 ** 2)
}

/** In bytes: `500k`, `10MB`, `1GiB`. The unit is needed, and KB means KiB. Undefined if it is not a size. */
export function readByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([kmg])i?b?$/.exec(text.toLowerCase())
  return match ? amount(match[1], 1024 ** (1 + 'kmg'.indexOf(match[2] ?? ''))) : undefined
}

/** In milliseconds: `90s`, `15m`, `1h`. A bare number is seconds. Undefined if it is not a duration. */
export function readMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text)
  return match ? amount(match[1], MS_PER_UNIT.get(match[2] ?? '')) : undefined
}

function amount(number: string | undefined, unit: number | undefined): number | undefined {
  return unit === undefined ? undefined : Math.round(Number(number) * unit)
}
