/** The schema of `agentpod.toml` for editors, in the draft of JSON Schema that tools for TOML read. */
import * as z from 'zod'
import { projectSchema } from './schema.ts'

export type JsonSchema = Record<string, unknown>

export function projectJsonSchema(): JsonSchema {
  const { $schema, ...schema } = describedSchema(projectSchema, ({ absent, kind: _, ...rest }) =>
    typeof absent === 'string'
      ? { ...rest, description: `${rest['description']} ${defaultOf(absent)}` }
      : rest,
  )
  return {
    $schema,
    $id: 'urn:agentpod:agentpod.toml',
    title: 'agentpod.toml',
    description: 'The environment of a project’s sandboxes, and what they may do. Every key is optional.',
    ...schema,
  }
}

/** Calls `map` for each schema, with the metadata of the tables. */
export function describedSchema(
  schema: z.ZodType,
  map: (schema: JsonSchema) => JsonSchema = (one) => one,
): JsonSchema {
  return z.toJSONSchema(schema, {
    target: 'draft-7',
    io: 'input',
    override({ jsonSchema }) {
      const own = jsonSchema as JsonSchema
      const mapped = map({ ...own })
      for (const key of Object.keys(own)) delete own[key]
      Object.assign(own, mapped)
    },
  }) as JsonSchema
}

function defaultOf(absent: string): string {
  return `When left out: ${absent}.`
}
