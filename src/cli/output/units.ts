/** Times and sizes for people. */

export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 100) return `${seconds}s`
  const minutes = Math.round(seconds / 60)
  if (minutes < 100 && minutes !== 60) return `${minutes}m`
  const hours = Math.round(minutes / 60)
  return hours < 49 ? `${hours}h` : `${Math.round(hours / 24)}d`
}

export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}
