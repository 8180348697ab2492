/** Who did what, as requested over the API. Never contains a secret. */
export const AUDIT_ACTIONS = [
  'sandbox.create',
  'sandbox.extend',
  'sandbox.destroy',
  'sandbox.pause',
  'sandbox.resume',
  'sandbox.stop',
  'sandbox.start',
  'sandbox.fork',
  'snapshot.create',
  'snapshot.import',
  'snapshot.destroy',
  'image.pull',
  'image.push',
  'image.remove',
  'feature.fetch',
  'volume.create',
  'volume.remove',
  'group.create',
  'group.pause',
  'group.resume',
  'group.stop',
  'group.start',
  'group.snapshot',
  'group.fork',
  'group.destroy',
  'network.change',
  'secret.set',
  'secret.rotate',
  'secret.remove',
  'key.create',
  'key.revoke',
] as const

export type AuditAction = (typeof AUDIT_ACTIONS)[number]

export interface AuditEntry {
  readonly seq: number
  readonly at: number
  /** The id of a key, or `local`. */
  readonly actor: string
  readonly action: AuditAction
  /** The id of a sandbox, a snapshot, a volume, a group or a key. */
  readonly subject: string
  readonly data: Readonly<Record<string, unknown>>
}
