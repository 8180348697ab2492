/**
 * The schema for editors against the reader of files. A small judge of JSON Schema knows just the words that
 * ours uses.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parse } from 'smol-toml'
import * as z from 'zod'
import { FULL } from '../testing/full-file.ts'
import { type JsonSchema, projectJsonSchema } from './json-schema.ts'
import { parseProject } from './project-file.ts'
import { EXAMPLES } from './reference.ts'
import { projectSchema } from './schema.ts'

const FILE = join(import.meta.dirname, '..', '..', '..', 'spec', 'agentpod.schema.json')
const schema = projectJsonSchema()

test('spec/agentpod.schema.json is up to date (AGENTPOD_UPDATE_SPEC=1 writes it)', () => {
  const text = `${JSON.stringify(schema, null, 2)}\n`
  if (process.env['AGENTPOD_UPDATE_SPEC'] === '1') writeFileSync(FILE, text)
  assert.ok(readFileSync(FILE, 'utf8') === text, 'run this test with AGENTPOD_UPDATE_SPEC=1')
})

test('it says what it is, in the draft that tools for TOML read', () => {
  assert.equal(schema['$schema'], 'http://json-schema.org/draft-07/schema#')
  assert.ok(schema['$id'] && schema['title'] && schema['description'])
})

describe('every key', () => {
  const properties = [...propertiesIn(schema, '')]

  test('every key has a description that is a sentence', () => {
    assert.ok(properties.length > 80, String(properties.length))
    for (const [path, { description }] of properties)
      assert.match(String(description), /^[A-Z`].{10,}\.$/s, path)
  })

  test('every string, list and number in the schema has a limit', () => {
    for (const [path, one] of schemasIn(schema, '')) {
      if (one['type'] === 'array') assert.ok(one['maxItems'], path)
      if (one['type'] === 'string')
        assert.ok(
          one['maxLength'] ?? one['pattern'] ?? one['enum'] ?? one['const'] ?? KNOWN_TO_END.has(path),
          path,
        )
    }
  })

  test('every key of the reader is in the schema', () => {
    const mine = Object.keys(projectSchema.shape)
    assert.deepEqual(Object.keys(schema['properties'] as object), mine)
  })
})

/** A name has the grammar of all names, and the parts of a rule that of rules. */
const KNOWN_TO_END: ReadonlySet<string> = new Set([
  '.environment.name',
  ...['', '.profiles.*'].flatMap((above) =>
    ['allow', 'deny'].flatMap((list) =>
      ['methods', 'paths'].map((part) => `${above}.network.${list}.[].|1.${part}.[]`),
    ),
  ),
])

describe('editors and the reader agree', () => {
  for (const [name, text] of Object.entries({ ...EXAMPLES, full: FULL, empty: '' }))
    test(`schema and reader both accept ${name}`, () => {
      parseProject({ file: name, text })
      assert.deepEqual(judge(schema, plain(text), ''), [])
    })

  const WRONG = [
    'x = 1',
    '[environment]\nbase = "debain"',
    '[environment]\nlangs = {}',
    '[environment.languages]\nnode = 22',
    '[environment.packages]\napt = ["-y"]',
    '[environment.packages]\nnpm = "x"',
    '[environment.variables]\nPORT = 3000',
    '[environment.variables]\n"A-B" = "x"',
    '[services]\nredis = true',
    '[services]\nredis = { port = 0 }',
    '[services]\nx = { run = "x", ready = { port = 1, time = "1s" } }',
    '[ports]\nweb = {}',
    '[ports]\n3000 = { public = "yes" }',
    '[lifecycle]\ntest = 5',
    '[lifecycle]\ntest = []',
    '[lifecycle.setup]\ninputs = []',
    '[resources]\nmemory = 4096',
    '[resources]\ncpus = 0',
    '[network]\nmode = "opne"',
    '[network]\npresets = ["nmp"]',
    '[network]\nallow = [{ ports = [80] }]',
    '[secrets]\nA = { value = "x" }',
    '[agents.permissions]\nbash = "yes"',
    '[profiles.ci.resources]\nmemory = "big"',
    '[profiles.ci]\nenvironment = {}',
  ]
  for (const text of WRONG)
    test(`schema and reader both refuse ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseProject({ file: 'agentpod.toml', text }))
      assert.notDeepEqual(judge(schema, plain(text), ''), [])
    })
})

test('a schema that lost a description would be found', () => {
  const bare = z.toJSONSchema(z.strictObject({ key: z.string() })) as JsonSchema
  assert.deepEqual(
    [...propertiesIn(bare, '')].map(([path, { description }]) => [path, description]),
    [['.key', undefined]],
  )
})

function plain(text: string): unknown {
  return JSON.parse(JSON.stringify(parse(text)))
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null
}

function* schemasIn(one: JsonSchema, path: string): Generator<readonly [string, JsonSchema]> {
  yield [path, one]
  const {
    properties = {},
    additionalProperties,
    items,
    anyOf = [],
  } = one as {
    properties?: Record<string, JsonSchema>
    additionalProperties?: unknown
    items?: JsonSchema
    anyOf?: JsonSchema[]
  }
  for (const [key, inner] of Object.entries(properties)) yield* schemasIn(inner, `${path}.${key}`)
  if (isSchema(additionalProperties)) yield* schemasIn(additionalProperties, `${path}.*`)
  if (items) yield* schemasIn(items, `${path}.[]`)
  for (const [index, inner] of anyOf.entries()) yield* schemasIn(inner, `${path}.|${index}`)
}

function* propertiesIn(one: JsonSchema, path: string): Generator<readonly [string, JsonSchema]> {
  for (const [at, inner] of schemasIn(one, path))
    for (const [key, property] of Object.entries((inner['properties'] ?? {}) as Record<string, JsonSchema>))
      yield [`${at}.${key}`, property]
}

type Rule = (limit: never, value: never, path: string, one: JsonSchema) => readonly string[]
const because = (isRight: boolean, path: string, word: string): string[] =>
  isRight ? [] : [`${path}: ${word}`]
const ANNOTATIONS = ['$schema', '$id', 'title', 'description']

/** Each word of JSON Schema that ours uses; another one fails the test that meets it. */
const WORDS: Readonly<Record<string, Rule>> = {
  type: (type: string, value: unknown, path) => because(typesOf(value).includes(type), path, `type ${type}`),
  enum: (words: readonly unknown[], value: unknown, path) => because(words.includes(value), path, 'enum'),
  const: (word: unknown, value: unknown, path) => because(word === value, path, 'const'),
  pattern: (pattern: string, value: unknown, path) =>
    because(typeof value !== 'string' || new RegExp(pattern).test(value), path, 'pattern'),
  minLength: (least: number, value: unknown, path) =>
    because(typeof value !== 'string' || value.length >= least, path, 'minLength'),
  maxLength: (most: number, value: unknown, path) =>
    because(typeof value !== 'string' || value.length <= most, path, 'maxLength'),
  minimum: (least: number, value: unknown, path) =>
    because(typeof value !== 'number' || value >= least, path, 'minimum'),
  maximum: (most: number, value: unknown, path) =>
    because(typeof value !== 'number' || value <= most, path, 'maximum'),
  minItems: (least: number, value: unknown, path) =>
    because(!Array.isArray(value) || value.length >= least, path, 'minItems'),
  maxItems: (most: number, value: unknown, path) =>
    because(!Array.isArray(value) || value.length <= most, path, 'maxItems'),
  items: (one: JsonSchema, value: unknown, path) =>
    Array.isArray(value) ? value.flatMap((inner, index) => judge(one, inner, `${path}.${index}`)) : [],
  anyOf: (all: readonly JsonSchema[], value: unknown, path) =>
    because(
      all.some((one) => judge(one, value, path).length === 0),
      path,
      'anyOf',
    ),
  required: (keys: readonly string[], value: unknown, path) =>
    isSchema(value)
      ? keys.flatMap((key) => because(Object.hasOwn(value, key), `${path}.${key}`, 'required'))
      : [],
  properties: (all: Readonly<Record<string, JsonSchema>>, value: unknown, path) =>
    isSchema(value)
      ? Object.entries(all).flatMap(([key, one]) =>
          Object.hasOwn(value, key) ? judge(one, value[key], `${path}.${key}`) : [],
        )
      : [],
  propertyNames: (one: JsonSchema, value: unknown, path) =>
    isSchema(value) ? Object.keys(value).flatMap((key) => judge(one, key, `${path}.${key}`)) : [],
  additionalProperties: (rest: false | JsonSchema, value: unknown, path, { properties = {} }) =>
    isSchema(value) && !Array.isArray(value)
      ? Object.entries(value)
          .filter(([key]) => !Object.hasOwn(properties as object, key))
          .flatMap(([key, inner]) =>
            rest === false ? [`${path}.${key}: unknown`] : judge(rest, inner, `${path}.${key}`),
          )
      : [],
}

function typesOf(value: unknown): string[] {
  if (Array.isArray(value)) return ['array']
  if (typeof value === 'number') return Number.isInteger(value) ? ['integer', 'number'] : ['number']
  return [typeof value]
}

function judge(one: JsonSchema, value: unknown, path: string): readonly string[] {
  return Object.entries(one).flatMap(([word, limit]) => {
    if (ANNOTATIONS.includes(word)) return []
    const rule = WORDS[word]
    assert.ok(rule, `the judge does not know ${word}`)
    return rule(limit as never, value as never, path, one)
  })
}
