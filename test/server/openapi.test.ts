// The description of the API against the API: every route that is registered is described, and nothing else.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { isE2bPath } from '../../src/api/e2b/error-response.ts'
import { docsPage } from '../../src/api/openapi/docs-page.ts'
import { openApi } from '../../src/api/openapi/openapi.ts'
import { ROUTES } from '../../src/api/openapi/route-table.ts'
import { Front } from '../support/front.ts'
import { ROOT } from '../support/world.ts'

const FILE = join(ROOT, 'spec', 'api.openapi.json')
/** The file says what the API is, not which release it was made from. */
const VERSION = '1'

type Json = Record<string, unknown>

let front: Front
before(async () => {
  front = await Front.open()
})
after(() => front[Symbol.asyncDispose]())

test('API-4 every route is described, and nothing else is', () => {
  const registered = front.app.routes
    .filter(({ method, path }) => method !== 'ALL' && !isE2bPath(path))
    .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
  const described = ROUTES.map(({ method, path }) => `${method} ${path}`)
  assert.deepEqual([...new Set(registered)].sort(), [...described].sort())
})

test('API-4 spec/api.openapi.json is up to date (AGENTPOD_UPDATE_SPEC=1 writes it)', () => {
  const text = `${JSON.stringify(openApi(VERSION), null, 2)}\n`
  if (process.env['AGENTPOD_UPDATE_SPEC'] === '1') writeFileSync(FILE, text)
  assert.ok(readFileSync(FILE, 'utf8') === text, 'run this test with AGENTPOD_UPDATE_SPEC=1')
})

describe('the description is OpenAPI 3.1', () => {
  const document = openApi(VERSION)
  const paths = document['paths'] as Record<string, Record<string, Json>>
  const schemas = (document['components'] as { schemas: Json }).schemas

  test('the description has the members that OpenAPI 3.1 requires', () => {
    assert.match(String(document['openapi']), /^3\.1\.\d+$/)
    const info = document['info'] as Json
    assert.ok(info['title'] && info['version'])
    for (const [path, item] of Object.entries(paths)) {
      assert.match(path, /^\//)
      for (const [method, operation] of Object.entries(item)) {
        assert.ok(['get', 'post', 'delete'].includes(method), method)
        assert.ok(operation['responses'] && Object.keys(operation['responses']).length > 0, path)
        for (const [status, answer] of Object.entries(operation['responses'] as Record<string, Json>)) {
          assert.match(status, /^[1-5]\d\d$/)
          assert.equal(typeof answer['description'], 'string')
        }
      }
    }
  })

  test('the description has a unique id for each operation', () => {
    const ids = Object.values(paths).flatMap((item) =>
      Object.values(item).map((operation) => String(operation['operationId'])),
    )
    assert.deepEqual(ids, [...new Set(ids)])
    for (const id of ids) assert.match(id, /^[a-z][A-Za-z]+$/)
  })

  test('the description has a parameter for each placeholder in a path, and the reverse', () => {
    for (const [path, item] of Object.entries(paths)) {
      const places = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      for (const operation of Object.values(item)) {
        const given = (operation['parameters'] ?? []) as {
          in: string
          name: string
          required: boolean
          schema: Json
        }[]
        const inPath = given.filter((one) => one.in === 'path')
        assert.deepEqual(inPath.map(({ name }) => name).sort(), [...places].sort(), path)
        assert.ok(inPath.every(({ required }) => required))
        for (const { name, schema } of given) assert.ok(schema['type'], `${path} ${name} has a type`)
        assert.equal(new Set(given.map((one) => `${one.in} ${one.name}`)).size, given.length)
      }
    }
  })

  test('the description’s references resolve, and every schema is used', () => {
    const used = new Set<string>()
    walk(document, (key, value) => {
      if (key !== '$ref') return
      const name = /^#\/components\/schemas\/(\w+)$/.exec(String(value))?.[1]
      assert.ok(name && Object.hasOwn(schemas, name), String(value))
      used.add(name)
    })
    assert.deepEqual([...used].sort(), Object.keys(schemas).sort())
  })

  test('the description uses schemas of known types only', () => {
    const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
    walk(schemas, (key, value) => {
      if (key === 'type' && typeof value === 'string') assert.ok(TYPES.includes(value), value)
    })
  })

  test('the description requires a key for everything that is not public', () => {
    const open = Object.entries(paths).flatMap(([path, item]) =>
      Object.values(item).some((one) => Array.isArray(one['security']) && one['security'].length === 0)
        ? [path]
        : [],
    )
    assert.deepEqual(open.sort(), ['/docs', '/health', '/openapi.json'])
  })
})

describe('the page at /docs', () => {
  const page = docsPage('1.2.3')

  test('the page at /docs names every route', () => {
    for (const { path, summary } of ROUTES)
      assert.ok(page.includes(path) && page.includes(summary.replaceAll("'", '&#39;')), path)
  })

  test('the page at /docs loads nothing and runs nothing', () => {
    assert.doesNotMatch(page, /<script|<link|<img|<iframe|@import|url\(|src=|\son\w+=|style="/i)
    for (const [, target] of page.matchAll(/href="([^"]*)"/g))
      assert.match(target ?? '', /^(?:#[\w-]+|\/openapi\.json)$/)
  })

  test('the page at /docs links only to places that exist', () => {
    for (const [, id] of page.matchAll(/href="#([^"]*)"/g)) assert.ok(page.includes(`id="${id}"`), id)
  })

  test('the page at /docs shows a hostile version as text', () => {
    assert.ok(!docsPage('<img src=x onerror=alert(1)>').includes('<img'))
  })
})

function walk(value: unknown, visit: (key: string, value: unknown) => void): void {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    visit(key, inner)
    walk(inner, visit)
  }
}
