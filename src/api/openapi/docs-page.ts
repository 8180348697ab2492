/** Generates the page at /docs from the route table. It has no script and loads nothing. */
import { createHash } from 'node:crypto'
import { codesOf, jsonSchema, queryParameters, statusOf } from './openapi.ts'
import { type ApiRoute, REQUESTS, SCHEMAS, type SchemaName, TAGS, type Tag, type Who } from './route.ts'
import { DATA_PLANE, ROUTES } from './route-table.ts'

const STYLE = `
:root{color-scheme:light dark;--ink:#1c2024;--soft:#60646c;--line:#e0e3e8;--ground:#fff;--card:#f8f9fb;--link:#0b5cad;--get:#0b6e4f;--post:#0b5cad;--delete:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9ba1a9;--line:#2e3238;--ground:#131518;--card:#1b1e22;--link:#7ab8ff;--get:#5fd3a6;--post:#7ab8ff;--delete:#ff9a92}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--ground)}
.page{display:grid;grid-template-columns:17rem minmax(0,1fr);max-width:76rem;margin:0 auto}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:2rem 1rem 2rem 1.5rem;border-right:1px solid var(--line);font-size:.875rem}
nav h2{margin:1.25rem 0 .25rem;font-size:.75rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft)}
nav a{display:block;padding:.15rem 0;color:var(--ink);text-decoration:none}
nav a:hover{color:var(--link)}
main{padding:2rem 2rem 6rem}
h1{margin:0;font-size:1.9rem}
main h2{margin:3rem 0 .25rem;font-size:1.35rem}
h3{margin:0;font-size:1.05rem}
a{color:var(--link)}
p{margin:.5rem 0}
.soft{color:var(--soft)}
code{font:.875em/1.4 ui-monospace,monospace;background:var(--card);padding:.1em .3em;border-radius:4px;overflow-wrap:anywhere}
article{margin:1rem 0;padding:1rem 1.25rem;border:1px solid var(--line);border-radius:10px;scroll-margin-top:1rem}
article header{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline}
.where{font:600 .9rem/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
.GET{color:var(--get)}.POST{color:var(--post)}.DELETE{color:var(--delete)}
.who{margin-left:auto;font-size:.75rem;color:var(--soft);border:1px solid var(--line);border-radius:99px;padding:.05rem .6rem;white-space:nowrap}
table{width:100%;margin:.75rem 0 0;border-collapse:collapse;font-size:.875rem}
th{width:12rem;text-align:left;font-weight:400;vertical-align:top;padding:.35rem 1rem .35rem 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
td{vertical-align:top;padding:.35rem 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
h4{margin:1rem 0 0;font-size:.75rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft)}
pre{margin:.75rem 0 0;padding:.75rem 1rem;background:var(--card);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;font:.8125rem/1.5 ui-monospace,monospace}
@media(max-width:52rem){.page{display:block}nav{display:none}main{padding:1.5rem}th{width:8rem}}
`

/** SECURITY: CP-10. No script, no style except this one, no frame, no form. */
export const DOCS_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export function docsPage(version: string): string {
  const tags = Object.keys(TAGS) as Tag[]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>AgentPod API</title>
<style>${STYLE}</style>
</head>
<body>
<div class="page">
<nav aria-label="Contents">
<a href="#top"><strong>AgentPod API</strong></a>
${tags.map(menu).join('\n')}
<h2>Schemas</h2>
${names()
  .map((name) => `<a href="#${name}">${name}</a>`)
  .join('\n')}
</nav>
<main id="top">
<h1>AgentPod API</h1>
<p class="soft">Version ${escapeHtml(version)}. For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
<p>The unix socket in the state directory belongs to one user and needs no key. Over TCP every call needs a key, as
<code>X-API-Key</code> or <code>Authorization: Bearer</code>; <code>agentpod key create</code> creates one.</p>
<pre>curl -H "X-API-Key: $AGENTPOD_API_KEY" -d '{"name":"box"}' http://localhost:8080/v1/sandboxes</pre>
<p>Unknown keys are errors. Every answer has an <code>agentpod-request-id</code>, the id of the request in the server's log.
An error is <code>{"error": {"code", "reason", "message", "hint"}}</code>; 429 has <code>Retry-After</code> in whole
seconds.</p>
<h2>Inside a sandbox</h2>
<p>${prose(DATA_PLANE)}</p>
${tags.map(section).join('\n')}
<h2>Schemas</h2>
${names().map(schemaCard).join('\n')}
</main>
</div>
</body>
</html>
`
}

function names(): SchemaName[] {
  return Object.keys(SCHEMAS) as SchemaName[]
}

function menu(tag: Tag): string {
  const links = routesOf(tag).map((route) => `<a href="#${anchor(route)}">${escapeHtml(route.summary)}</a>`)
  return `<h2>${tag}</h2>\n${links.join('\n')}`
}

function section(tag: Tag): string {
  return `<h2>${tag.charAt(0).toUpperCase()}${tag.slice(1)}</h2>\n<p class="soft">${prose(TAGS[tag])}</p>\n${routesOf(tag).map(card).join('\n')}`
}

function routesOf(tag: Tag): ApiRoute[] {
  return ROUTES.filter((route) => route.tag === tag)
}

const WHO: Record<Who, string> = { anyone: 'no key', key: 'any key', admin: 'admin key' }

function card(route: ApiRoute): string {
  const parameters: [string, string][] = [
    ...Object.entries(route.parameters ?? {}).map(([name, says]): [string, string] => [
      `<code>{${escapeHtml(name)}}</code>`,
      prose(says),
    ]),
    ...queryParameters(route).map(({ name, description, schema }): [string, string] => [
      `<code>?${escapeHtml(String(name))}</code>`,
      `${prose(String(description ?? ''))} <span class="soft">${escapeHtml(typeName(schema))}</span>`,
    ]),
    ...Object.entries(route.headers ?? {}).map(([name, says]): [string, string] => [
      `<code>${escapeHtml(name)}</code>`,
      prose(says),
    ]),
    ...(route.body ? [['Body', link(route.body)] as [string, string]] : []),
    ...(route.stream ? [['Body', `<code>${escapeHtml(route.stream)}</code>`] as [string, string]] : []),
  ]
  const answers = route.answers.map(({ status, says, schema, isList, media }): [string, string] => [
    `${status} ${media ? `<code>${escapeHtml(media)}</code>` : ''}`,
    `${schema ? `${isList ? 'a list of ' : ''}${link(schema)}. ` : ''}${prose(says)}`,
  ])
  const errors = codesOf(route).map((code) => `${statusOf(code)}&nbsp;<code>${code}</code>`)
  return `<article id="${anchor(route)}">
<header><h3>${escapeHtml(route.summary)}</h3><span class="who">${WHO[route.who]}</span></header>
<p class="where"><span class="${route.method}">${route.method}</span> ${escapeHtml(route.path)}</p>
${route.description ? `<p>${prose(route.description)}</p>` : ''}
${rows('Request', parameters)}
${rows('Response', [...answers, ...(errors.length > 0 ? [['Errors', errors.join(', ')] as [string, string]] : [])])}
</article>`
}

function schemaCard(name: SchemaName): string {
  const schema = jsonSchema(SCHEMAS[name], REQUESTS.has(name) ? 'input' : 'output')
  return `<article id="${name}"><h3>${name}</h3>
<pre>${escapeHtml(outline(schema))}</pre></article>`
}

function rows(title: string, entries: readonly (readonly [string, string])[]): string {
  if (entries.length === 0) return ''
  const lines = entries.map(([left, right]) => `<tr><th scope="row">${left}</th><td>${right}</td></tr>`)
  return `<h4>${title}</h4><table>${lines.join('')}</table>`
}

function link(name: SchemaName): string {
  return `<a href="#${name}">${name}</a>`
}

function anchor({ method, path }: ApiRoute): string {
  return `${method.toLowerCase()}${path.replaceAll(/[^a-z0-9]+/gi, '-')}`.replace(/-$/, '')
}

type Schema = Readonly<Record<string, unknown>>

/** A JSON schema as a short outline of the value. */
function outline(schema: Schema, indent = ''): string {
  const properties = schema['properties'] as Record<string, Schema> | undefined
  if (schema['type'] === 'object' && properties) {
    const required = new Set(schema['required'] as string[] | undefined)
    const inner = `${indent}  `
    const lines = Object.entries(properties).map(([key, value]) => {
      const says = typeof value['description'] === 'string' ? `  // ${value['description']}` : ''
      return `${inner}${key}${required.has(key) ? '' : '?'}: ${outline(value, inner)}${says}`
    })
    return `{\n${lines.join('\n')}\n${indent}}`
  }
  const options = (schema['anyOf'] ?? schema['oneOf']) as Schema[] | undefined
  if (options) return options.map((option) => outline(option, indent)).join(' | ')
  if (schema['type'] === 'array') return `${outline(schema['items'] as Schema, indent)}[]`
  if (schema['type'] === 'object') {
    const values = schema['additionalProperties']
    return `{ [key]: ${values && typeof values === 'object' ? outline(values as Schema, indent) : 'any'} }`
  }
  return typeName(schema)
}

function typeName(schema: unknown): string {
  const { type, enum: values, const: only, items, minimum, maximum } = schema as Schema
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(' | ')
  if (only !== undefined) return JSON.stringify(only)
  if (type === 'array') return `${typeName(items)}[]`
  const isBound = (n: unknown): boolean => typeof n === 'number' && Math.abs(n) < Number.MAX_SAFE_INTEGER
  const range = isBound(minimum) && isBound(maximum) ? ` ${minimum}..${maximum}` : ''
  return `${typeof type === 'string' ? type : 'any'}${range}`
}

/** Text with `code` in it. */
function prose(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}
