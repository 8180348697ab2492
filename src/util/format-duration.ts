/** Formats a duration for people, rounded to seconds or minutes. */
export function formatDuration(ms: number): string {
  return ms < 120_000 ? `${Math.round(ms / 1000)} seconds` : `${Math.round(ms / 60_000)} minutes`
}
