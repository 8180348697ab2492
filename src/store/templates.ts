/** The tables of templates, their builds and their tags. Only `api/e2b/templates` writes rows. */
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite'
import type {
  TemplateBuild,
  TemplateRecord,
  TemplateStatus,
  TemplateStore,
  TemplateTag,
} from '../core/build/template.ts'
import { sqliteError, transaction } from './database.ts'

type Row = Record<string, SQLOutputValue>

const TEMPLATE = 'id, owner, name, is_public, created_at, updated_at, spawn_count, last_spawned_at'
const BUILD =
  'id, template_id, status, tags, cpus, memory_mib, created_at, updated_at, finished_at, made, reason, logs'
/** Logs are long, and lists show none. */
const BUILD_WITHOUT_LOGS = BUILD.replace(/logs$/, "'[]' AS logs")

export function templateStore(db: DatabaseSync): TemplateStore {
  const run = (sql: string, ...values: SQLInputValue[]): void => {
    try {
      db.prepare(sql).run(...values)
    } catch (error) {
      throw sqliteError(error, 'cannot save the template')
    }
  }
  return {
    templates: () =>
      db.prepare(`SELECT ${TEMPLATE} FROM templates ORDER BY created_at, id`).all().map(templateOf),
    saveTemplate: (t) =>
      run(
        `INSERT OR REPLACE INTO templates (${TEMPLATE}) VALUES (?,?,?,?,?,?,?,?)`,
        ...[t.id, t.owner, t.name, t.isPublic ? 1 : 0],
        ...[t.createdAt, t.updatedAt, t.spawnCount, t.lastSpawnedAt ?? null],
      ),
    removeTemplate: (id) =>
      transaction(db, () => {
        run('DELETE FROM template_tags WHERE template_id = ?', id)
        run('DELETE FROM template_builds WHERE template_id = ?', id)
        run('DELETE FROM templates WHERE id = ?', id)
      }),
    builds: (templateId) =>
      db
        .prepare(
          `SELECT ${BUILD_WITHOUT_LOGS} FROM template_builds WHERE template_id = ? ORDER BY created_at DESC, rowid DESC`,
        )
        .all(templateId)
        .map(buildOf),
    build(id) {
      const row = db.prepare(`SELECT ${BUILD} FROM template_builds WHERE id = ?`).get(id)
      return row && buildOf(row)
    },
    saveBuild: (b) =>
      run(
        `INSERT OR REPLACE INTO template_builds (${BUILD}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`,
        ...[b.id, b.templateId, b.status, JSON.stringify(b.tags), b.cpus, b.memoryMib],
        ...[b.createdAt, b.updatedAt, b.finishedAt ?? null, json(b.made), json(b.reason)],
        JSON.stringify(b.logs),
      ),
    removeBuild: (id) => run('DELETE FROM template_builds WHERE id = ?', id),
    tags: (templateId) =>
      db
        .prepare('SELECT * FROM template_tags WHERE template_id = ? ORDER BY created_at, tag')
        .all(templateId)
        .map(tagOf),
    saveTag: (t) =>
      run(
        'INSERT OR REPLACE INTO template_tags (template_id, tag, build_id, created_at) VALUES (?,?,?,?)',
        ...[t.templateId, t.tag, t.buildId, t.createdAt],
      ),
    removeTag: (templateId, tag) =>
      run('DELETE FROM template_tags WHERE template_id = ? AND tag = ?', templateId, tag),
  }
}

function json(value: object | undefined): string | null {
  return value ? JSON.stringify(value) : null
}

function optionalNumber(value: SQLOutputValue | undefined): number | undefined {
  return value === null || value === undefined ? undefined : Number(value)
}

function templateOf(row: Row): TemplateRecord {
  return {
    id: String(row['id']),
    owner: String(row['owner']),
    name: String(row['name']),
    isPublic: row['is_public'] === 1,
    createdAt: Number(row['created_at']),
    updatedAt: Number(row['updated_at']),
    spawnCount: Number(row['spawn_count']),
    lastSpawnedAt: optionalNumber(row['last_spawned_at']),
  }
}

function buildOf(row: Row): TemplateBuild {
  const { made, reason } = row
  return {
    id: String(row['id']),
    templateId: String(row['template_id']),
    status: String(row['status']) as TemplateStatus,
    tags: JSON.parse(String(row['tags'])) as string[],
    cpus: Number(row['cpus']),
    memoryMib: Number(row['memory_mib']),
    createdAt: Number(row['created_at']),
    updatedAt: Number(row['updated_at']),
    finishedAt: optionalNumber(row['finished_at']),
    made: made === null ? undefined : JSON.parse(String(made)),
    reason: reason === null ? undefined : JSON.parse(String(reason)),
    logs: JSON.parse(String(row['logs'])) as TemplateBuild['logs'],
  }
}

function tagOf(row: Row): TemplateTag {
  return {
    templateId: String(row['template_id']),
    tag: String(row['tag']),
    buildId: String(row['build_id']),
    createdAt: Number(row['created_at']),
  }
}
