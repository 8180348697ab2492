/** Something that happened to a sandbox. Events are only ever appended. */
export const EVENT_TYPES = [
  'sandbox.creating',
  'sandbox.running',
  'sandbox.extended',
  'sandbox.paused',
  'sandbox.resumed',
  'sandbox.stopped',
  'sandbox.started',
  'sandbox.forked',
  'snapshot.created',
  'service.ready',
  'network.changed',
  'network.decision',
  'sandbox.destroying',
  'sandbox.destroyed',
  'sandbox.failed',
] as const

export type EventType = (typeof EVENT_TYPES)[number]

export interface SandboxEvent {
  readonly seq: number
  readonly at: number
  readonly sandboxId: string
  readonly type: EventType
  readonly data: Readonly<Record<string, unknown>>
}
