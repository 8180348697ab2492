/** The table of sandboxes. Only `engine/lifecycle/sandbox-registry.ts` writes rows. */
import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite'
import type { Isolation } from '../core/capability.ts'
import { AgentPodError } from '../core/error.ts'
import type { SandboxId, SnapshotId } from '../core/id.ts'
import type { State } from '../core/lifecycle.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { type Migration, sqliteError, withoutSync } from './database.ts'
import { DiskSync } from './disk-sync.ts'

export const STATE_MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE TABLE sandboxes (
        id TEXT PRIMARY KEY,
        name TEXT,
        labels TEXT NOT NULL,
        provider TEXT NOT NULL,
        state TEXT NOT NULL,
        spec TEXT NOT NULL,
        limits TEXT,
        handle TEXT,
        created_at INTEGER NOT NULL,
        started_at INTEGER,
        deadline_at INTEGER NOT NULL,
        ended_at INTEGER,
        ending TEXT,
        request_key TEXT,
        request_digest TEXT
      ) STRICT;
      CREATE UNIQUE INDEX sandboxes_live_name ON sandboxes (name) WHERE ended_at IS NULL;
      CREATE UNIQUE INDEX sandboxes_request_key ON sandboxes (request_key) WHERE request_key IS NOT NULL;
      CREATE INDEX sandboxes_live ON sandboxes (created_at) WHERE ended_at IS NULL;
      CREATE INDEX sandboxes_created ON sandboxes (created_at, id);
      CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    `,
  },
  {
    version: 2,
    sql: `
      ALTER TABLE sandboxes ADD COLUMN owner TEXT NOT NULL DEFAULT 'local';
      DROP INDEX sandboxes_live_name;
      CREATE UNIQUE INDEX sandboxes_live_name ON sandboxes (owner, name) WHERE ended_at IS NULL;
      DROP INDEX sandboxes_request_key;
      CREATE UNIQUE INDEX sandboxes_request_key ON sandboxes (owner, request_key) WHERE request_key IS NOT NULL;
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        scope TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        revoked_at INTEGER
      ) STRICT;
    `,
  },
  // Lists by owner, label, state or name stay fast with a hundred thousand rows. Labels never change, so a
  // trigger on insert is enough.
  {
    version: 3,
    sql: `
      CREATE INDEX sandboxes_owner ON sandboxes (owner, created_at, id);
      CREATE INDEX sandboxes_state ON sandboxes (state, created_at, id);
      CREATE INDEX sandboxes_name ON sandboxes (name, created_at, id) WHERE name IS NOT NULL;
      CREATE TABLE sandbox_labels (
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        sandbox_id TEXT NOT NULL,
        PRIMARY KEY (key, value, created_at, sandbox_id)
      ) STRICT, WITHOUT ROWID;
      INSERT INTO sandbox_labels
        SELECT label.key, label.value, sandboxes.created_at, sandboxes.id
        FROM sandboxes, json_each(sandboxes.labels) AS label;
      CREATE TRIGGER sandboxes_labels AFTER INSERT ON sandboxes BEGIN
        INSERT INTO sandbox_labels
          SELECT label.key, label.value, new.created_at, new.id FROM json_each(new.labels) AS label;
      END;
    `,
  },
  // Pausing, stopping, snapshots and forks. Older rows meant destroying at the deadline.
  {
    version: 4,
    sql: `
      ALTER TABLE sandboxes ADD COLUMN root TEXT;
      ALTER TABLE sandboxes ADD COLUMN tip TEXT;
      ALTER TABLE sandboxes ADD COLUMN forked_from TEXT;
      UPDATE sandboxes SET spec = json_set(spec, '$.lifetime.whenOver', 'destroy', '$.lifetime.autoResume', json('false'))
        WHERE json_extract(spec, '$.lifetime.whenOver') IS NULL;
      UPDATE sandboxes SET spec = json_set(spec, '$.resources.diskMib', 20480)
        WHERE json_extract(spec, '$.resources.diskMib') IS NULL;
      UPDATE sandboxes SET limits = json_set(limits, '$.disk', json('{"level":"none","reason":"made before disks were limited"}'))
        WHERE limits IS NOT NULL AND json_extract(limits, '$.disk') IS NULL;
      CREATE TABLE snapshots (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        name TEXT,
        labels TEXT NOT NULL,
        provider TEXT NOT NULL,
        state TEXT NOT NULL,
        is_passing INTEGER NOT NULL,
        sandbox_id TEXT,
        parent_id TEXT,
        spec TEXT NOT NULL,
        root TEXT,
        size_bytes INTEGER NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX snapshots_name ON snapshots (owner, name) WHERE name IS NOT NULL;
      CREATE INDEX snapshots_created ON snapshots (created_at, id);
    `,
  },
  // Network. Older sandboxes had none, and get none unasked.
  {
    version: 5,
    sql: `
      ALTER TABLE sandboxes ADD COLUMN link TEXT;
      UPDATE sandboxes SET spec = json_set(spec, '$.network',
        json('{"mode":"off","rules":[],"denied":[],"secrets":[],"intercept":"needed"}'))
        WHERE json_extract(spec, '$.network') IS NULL;
      UPDATE snapshots SET spec = json_set(spec, '$.network',
        json('{"mode":"off","rules":[],"denied":[],"secrets":[],"intercept":"needed"}'))
        WHERE json_extract(spec, '$.network') IS NULL;
      ALTER TABLE keys ADD COLUMN network TEXT;
      CREATE TABLE secrets (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        variable TEXT NOT NULL,
        slot TEXT NOT NULL,
        sealed TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        rotated_at INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  // Layers of built environments are snapshots that sandboxes use.
  {
    version: 6,
    sql: `
      ALTER TABLE snapshots ADD COLUMN layer TEXT;
      CREATE UNIQUE INDEX snapshots_layer ON snapshots (json_extract(layer, '$.key')) WHERE layer IS NOT NULL AND state = 'ready';
    `,
  },
  // Runs. The request of a run is stored with it, so that another server can continue it.
  {
    version: 7,
    sql: `
      CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        project_key TEXT,
        group_id TEXT,
        is_ended INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        record TEXT NOT NULL,
        plan TEXT NOT NULL
      ) STRICT;
      CREATE INDEX runs_created ON runs (created_at, id);
      CREATE INDEX runs_owner ON runs (owner, created_at, id);
      CREATE INDEX runs_project ON runs (project_key, created_at, id);
      CREATE INDEX runs_unfinished ON runs (created_at) WHERE is_ended = 0;
    `,
  },
  // Several providers. Older sandboxes were containers.
  {
    version: 8,
    sql: `
      ALTER TABLE sandboxes ADD COLUMN isolation TEXT NOT NULL DEFAULT 'container';
    `,
  },
  // Volumes. The record of a sandbox names those that it mounts.
  {
    version: 9,
    sql: `
      CREATE TABLE volumes (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        provider TEXT NOT NULL,
        state TEXT NOT NULL,
        size_mib INTEGER,
        volume_limit TEXT,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX volumes_name ON volumes (owner, name);
    `,
  },
  // Templates of E2B's API, their builds and tags.
  {
    version: 10,
    sql: `
      CREATE TABLE templates (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        is_public INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        spawn_count INTEGER NOT NULL,
        last_spawned_at INTEGER
      ) STRICT;
      CREATE UNIQUE INDEX templates_name ON templates (owner, name);
      CREATE TABLE template_builds (
        id TEXT PRIMARY KEY,
        template_id TEXT NOT NULL,
        status TEXT NOT NULL,
        tags TEXT NOT NULL,
        cpus REAL NOT NULL,
        memory_mib INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        finished_at INTEGER,
        made TEXT,
        reason TEXT,
        logs TEXT NOT NULL
      ) STRICT;
      CREATE INDEX template_builds_of ON template_builds (template_id, created_at);
      CREATE TABLE template_tags (
        template_id TEXT NOT NULL,
        tag TEXT NOT NULL,
        build_id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (template_id, tag)
      ) STRICT;
    `,
  },
  // Groups. The record names the sandboxes of the members before they are made.
  {
    version: 11,
    sql: `
      CREATE TABLE groups (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        labels TEXT NOT NULL,
        state TEXT NOT NULL,
        members TEXT NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX groups_name ON groups (owner, name);
    `,
  },
  // Snapshots with memory. Older ones have files only.
  {
    version: 12,
    sql: `
      ALTER TABLE snapshots ADD COLUMN memory TEXT;
    `,
  },
  // Sandboxes that are paused to disk, and the lowest isolation of keys.
  {
    version: 13,
    sql: `
      ALTER TABLE sandboxes ADD COLUMN paused_at INTEGER;
      ALTER TABLE sandboxes ADD COLUMN saved_bytes INTEGER;
      ALTER TABLE keys ADD COLUMN isolation TEXT;
    `,
  },
]

/** The idempotency key of a create, with a digest of its request. */
export interface RequestKey {
  readonly key: string
  readonly digest: string
}

export interface PageOptions {
  /** Only sandboxes older than this one. */
  readonly before?: { readonly createdAt: number; readonly id: string } | undefined
  readonly limit: number
  readonly owner?: string | undefined
  readonly state?: State | undefined
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
}

export interface SandboxStore {
  /**
   * Stores the intent to create a sandbox. `already_exists` if the name or the request key is taken. A power
   * cut may take the record back until the next update; the provider then lists a sandbox without a record.
   */
  insert(sandbox: Sandbox, request: RequestKey | undefined): void
  /**
   * Writes the fields in which the record differs from the stored one. A power cut may take back the intent
   * to destroy a sandbox (the provider then has no such sandbox, or still has it) and, until `synced`, that
   * a sandbox was created or destroyed.
   */
  update(sandbox: Sandbox, before: Sandbox): void
  /** Returns when everything that was written would survive a power cut. */
  synced(): Promise<void>
  get(id: SandboxId): Sandbox | undefined
  /** The existing sandbox of that name. */
  named(owner: string, name: string): Sandbox | undefined
  requested(owner: string, key: string): { sandbox: Sandbox; digest: string } | undefined
  /** Sandboxes that have not ended, oldest first. */
  existing(): Sandbox[]
  /** Also ended sandboxes, newest first. */
  page(o: PageOptions): Sandbox[]
  /** Values about the state directory itself. */
  meta(key: string): string | undefined
  setMeta(key: string, value: string): void
}

/** The columns in their order. Objects are stored as JSON. */
const FIELDS: Readonly<Record<string, (s: Sandbox) => object | string | number | undefined>> = {
  id: (s) => s.id,
  name: (s) => s.name,
  labels: (s) => s.labels,
  provider: (s) => s.provider,
  state: (s) => s.state,
  spec: (s) => s.spec,
  limits: (s) => s.limits,
  handle: (s) => s.handle,
  created_at: (s) => s.createdAt,
  started_at: (s) => s.startedAt,
  deadline_at: (s) => s.deadlineAt,
  ended_at: (s) => s.endedAt,
  ending: (s) => s.ending,
  owner: (s) => s.owner,
  tip: (s) => s.tip,
  forked_from: (s) => s.forkedFrom,
  root: (s) => s.root,
  link: (s) => s.link,
  isolation: (s) => s.isolation,
  paused_at: (s) => s.pausedAt,
  saved_bytes: (s) => s.savedBytes,
}
const COLUMNS = Object.keys(FIELDS).join(', ')

export function sandboxStore(db: DatabaseSync): SandboxStore {
  const disk = new DiskSync(db)
  const insert = db.prepare(
    `INSERT INTO sandboxes (${COLUMNS}, request_key, request_digest) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
  )
  const updates = new Map<string, StatementSync>()
  const updateOf = (columns: readonly string[]): StatementSync => {
    const list = columns.map((column) => `${column} = ?`).join(', ')
    const prepared = updates.get(list) ?? db.prepare(`UPDATE sandboxes SET ${list} WHERE id = ?`)
    updates.set(list, prepared)
    return prepared
  }
  const select = (where: string): StatementSync => db.prepare(`SELECT ${COLUMNS} FROM sandboxes ${where}`)
  const byId = select('WHERE id = ?')
  const byName = select('WHERE owner = ? AND name = ? AND ended_at IS NULL')
  const byKey = db.prepare(
    `SELECT ${COLUMNS}, request_digest FROM sandboxes WHERE owner = ? AND request_key = ?`,
  )
  const existing = select('WHERE ended_at IS NULL ORDER BY created_at, id')
  const getMeta = db.prepare('SELECT value FROM meta WHERE key = ?')
  const setMeta = db.prepare(
    'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
  )

  return {
    insert(sandbox, request) {
      try {
        const values = Object.values(FIELDS).map((field) => storedValue(field(sandbox)))
        withoutSync(db, () => insert.run(...values, request?.key ?? null, request?.digest ?? null))
      } catch (error) {
        throw insertError(error, sandbox)
      }
    },
    update(sandbox, before) {
      // SQLite rewrites the indexes of every column that is set, even to the same value.
      const changed = Object.entries(FIELDS).filter(([, field]) => field(sandbox) !== field(before))
      if (changed.length === 0) return
      try {
        const statement = updateOf(changed.map(([column]) => column))
        const values = changed.map(([, field]) => storedValue(field(sandbox)))
        const run = (): unknown => statement.run(...values, before.id)
        if (mayWait(sandbox, before)) withoutSync(db, run)
        else run()
      } catch (error) {
        throw sqliteError(error, 'cannot save the sandbox')
      }
    },
    synced: () => disk.synced(),
    get: (id) => one(byId.get(id)),
    named: (owner, name) => one(byName.get(owner, name)),
    requested(owner, key) {
      const row = byKey.get(owner, key)
      return row && { sandbox: fromRow(row), digest: String(row['request_digest']) }
    },
    existing: () => existing.all().map(fromRow),
    page(o) {
      const { sql, values: given } = pageQuery(o)
      return db
        .prepare(sql)
        .all(...given)
        .map(fromRow)
    },
    meta: (key) => (getMeta.get(key) as { value: string } | undefined)?.value,
    setMeta(key, value) {
      setMeta.run(key, value)
    },
  }
}

/** Reports whether a write need not be on the disk yet: an intent, or the end of what waits for `synced`. */
function mayWait({ state }: Sandbox, before: Sandbox): boolean {
  if (state === 'running') return before.state === 'creating'
  return state === 'destroying' || state === 'destroyed'
}

type Value = string | number | null

/** If labels are given, the search starts with the first one, which is likely to be the rarest. */
function pageQuery(o: PageOptions): { sql: string; values: Value[] } {
  const [lead, ...others] = Object.entries(o.labels ?? {})
  const [at, id] = lead ? ['lead.created_at', 'lead.sandbox_id'] : ['created_at', 'id']
  const where = [`(${at}, ${id}) < (?, ?)`]
  const values: Value[] = [o.before?.createdAt ?? Number.MAX_SAFE_INTEGER, o.before?.id ?? '']
  const only = (condition: string, ...given: (string | undefined)[]): void => {
    if (given.includes(undefined)) return
    where.push(condition)
    values.push(...given.map(String))
  }
  if (lead) only('lead.key = ? AND lead.value = ?', ...lead)
  for (const label of others)
    only('EXISTS (SELECT 1 FROM json_each(labels) AS l WHERE l.key = ? AND l.value = ?)', ...label)
  only('owner = ?', o.owner)
  only('state = ?', o.state)
  only('name = ?', o.name)
  const from = lead
    ? 'sandbox_labels AS lead CROSS JOIN sandboxes ON sandboxes.id = lead.sandbox_id'
    : 'sandboxes'
  const columns = COLUMNS.replaceAll('created_at', 'sandboxes.created_at')
  const sql = `SELECT ${columns} FROM ${from} WHERE ${where.join(' AND ')} ORDER BY ${at} DESC, ${id} DESC LIMIT ?`
  return { sql, values: [...values, o.limit] }
}

function storedValue(field: object | string | number | undefined): Value {
  return typeof field === 'object' ? JSON.stringify(field) : (field ?? null)
}

type Row = Record<string, SQLOutputValue>

function fromRow(row: Row): Sandbox {
  const json = (column: string): never | undefined => {
    const text = row[column]
    return typeof text === 'string' ? JSON.parse(text) : undefined
  }
  const number = (column: string): number | undefined =>
    row[column] === null ? undefined : Number(row[column])
  return {
    id: String(row['id']) as SandboxId,
    owner: String(row['owner']),
    name: row['name'] === null ? undefined : String(row['name']),
    labels: json('labels') ?? {},
    provider: String(row['provider']),
    isolation: String(row['isolation']) as Isolation,
    state: String(row['state']) as State,
    spec: json('spec') as unknown as Sandbox['spec'],
    limits: json('limits'),
    handle: json('handle'),
    link: json('link'),
    root: json('root'),
    createdAt: Number(row['created_at']),
    startedAt: number('started_at'),
    deadlineAt: Number(row['deadline_at']),
    endedAt: number('ended_at'),
    ending: json('ending'),
    tip: (row['tip'] ?? undefined) as SnapshotId | undefined,
    forkedFrom: (row['forked_from'] ?? undefined) as SandboxId | undefined,
    pausedAt: number('paused_at'),
    savedBytes: number('saved_bytes'),
  }
}

function one(row: Row | undefined): Sandbox | undefined {
  return row && fromRow(row)
}

function insertError(error: unknown, sandbox: Sandbox): AgentPodError {
  const text = error instanceof Error ? error.message : ''
  if (text.includes('UNIQUE constraint failed: sandboxes.owner, sandboxes.name')) {
    return new AgentPodError({
      code: 'already_exists',
      reason: 'sandbox.name_taken',
      message: `there is already a sandbox named ${sandbox.name}`,
      hint: `choose another name, or run \`agentpod destroy ${sandbox.name}\` first`,
    })
  }
  if (text.includes('UNIQUE constraint failed')) {
    return new AgentPodError({
      code: 'already_exists',
      reason: 'sandbox.duplicate',
      message: 'the sandbox already exists',
    })
  }
  return sqliteError(error, 'cannot save the sandbox')
}
