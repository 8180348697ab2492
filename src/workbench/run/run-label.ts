/** What a run is called on the command line: its agent and its number. */
export interface LabelledRun {
  readonly agent: string
  readonly number: number
}

export function labelOf({ agent, number }: LabelledRun): string {
  return `${agent}-${number}`
}
