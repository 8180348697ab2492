/**
 * `customizations.agentpod`: the tables of agentpod.toml that add to a devcontainer. What devcontainer.json
 * has its own property for is not among them.
 */
import type * as z from 'zod'
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'
import { environmentTable } from '../project/environment-table.ts'
import { projectSchema } from '../project/schema.ts'
import type { Remark } from '../toml/problem.ts'
import { issueMessage, schemaRemarks } from '../toml/schema-problems.ts'

const agentpodTables = projectSchema.omit({ profiles: true }).extend({
  environment: environmentTable
    .omit({ base: true, suite: true, image: true, dockerfile: true, user: true })
    .optional(),
})
export type AgentpodTables = z.infer<typeof agentpodTables>

const PREFIX = ['customizations', 'agentpod']

/** The problems of one value, at their paths in devcontainer.json. */
export function checkAgentpodTables(value: unknown): Remark[] {
  if (value === undefined) return []
  const result = agentpodTables.safeParse(value, { error: issueMessage, reportInput: true })
  if (result.success) return []
  return schemaRemarks(result.error, agentpodTables).map((remark) => ({
    ...remark,
    path: [...PREFIX, ...remark.path],
    message: remark.message.replace(/^unknown key /, `unknown key ${PREFIX.join('.')}.`),
  }))
}

/**
 * One set of tables from all values, in the order of the metadata: objects are merged at every depth, arrays
 * are united, and of two other values the later one counts. The result is checked again, because two valid
 * values may contradict each other.
 */
export function mergeAgentpodTables(values: readonly unknown[]): {
  readonly tables: AgentpodTables
  readonly remarks: readonly Remark[]
} {
  const valid = values.filter((value) => checkAgentpodTables(value).length === 0)
  const merged = valid.reduce<unknown>(mergeTwo, {})
  const result = agentpodTables.safeParse(merged, { error: issueMessage, reportInput: true })
  const remarks = values.flatMap(checkAgentpodTables)
  return result.success
    ? { tables: result.data, remarks }
    : { tables: {}, remarks: [...remarks, ...checkAgentpodTables(merged)] }
}

function mergeTwo(before: unknown, later: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(later)) {
    const seen = new Set(before.map((one) => JSON.stringify(one)))
    return [...before, ...later.filter((one) => !seen.has(JSON.stringify(one)))]
  }
  if (!isObject(before) || !isObject(later)) return later
  const made: Record<string, unknown> = { ...before }
  for (const [key, value] of Object.entries(later))
    made[key] = Object.hasOwn(before, key) ? mergeTwo((before as JsonObject)[key], value) : value
  return made
}
