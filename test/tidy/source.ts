// Reads TypeScript just well enough to tell code from comments and strings, so that the rules match only
// code.

export type SourceFile = { readonly path: string; readonly text: string }

export type Violation = { readonly path: string; readonly line: number; readonly rule: string }

export type Import = {
  /** Empty where it is computed. */
  readonly specifier: string
  readonly kind: 'import' | 'export' | 'dynamic'
  readonly isTypeOnly: boolean
  readonly line: number
}

export type Literal = {
  readonly value: string
  readonly line: number
  /** Where the value begins, after its quote. */
  readonly start: number
}

export type Parsed = SourceFile & {
  /** The text with comments, strings and patterns blanked; offsets and lines stay as they are. */
  readonly code: string
  readonly literals: readonly Literal[]
  readonly imports: readonly Import[]
  /** The numbers of the lines that have a comment, or a part of one. */
  readonly comments: ReadonlySet<number>
}

export function parse(file: SourceFile): Parsed {
  const { code, spans, comments } = blank(file.text)
  const literals = spans.map(([start, end]) => ({
    value: file.text.slice(start, end),
    line: lineAt(file.text, start),
    start,
  }))
  return {
    ...file,
    code,
    literals,
    imports: findImports(file.text, code),
    comments: linesOf(file.text, comments),
  }
}

function linesOf(text: string, spans: readonly Span[]): Set<number> {
  return new Set(
    spans.flatMap(([start, end]) => {
      const first = lineAt(text, start)
      return text
        .slice(start, end)
        .split('\n')
        .map((_, n) => first + n)
    }),
  )
}

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** Gives the line of each match in the code of a file. */
export function matchLines(file: Parsed, pattern: RegExp): number[] {
  return [...file.code.matchAll(pattern)].map((match) => lineAt(file.code, match.index))
}

export function isTest(path: string): boolean {
  return path.endsWith('.test.ts')
}

const STATIC_IMPORT =
  /\b(?<keyword>import|export)\s+(?<names>(?:(?!\b(?:import|export)\b)[\w\s{},*$])*?)\bfrom\s*(?<quote>['"])/g
const BARE_IMPORT = /\bimport\s*(?<quote>['"])/g
const DYNAMIC_IMPORT = /(?<![.\w$#])import\s*\(\s*(?<quote>['"])/g
// A method may be called import too; only what stands where a value begins is the operator.
const COMPUTED_IMPORT = /(?<=(?:\bawait|\breturn|=>|[=(?:|&])\s*)import\s*\((?!\s*['"])/g

function findImports(text: string, code: string): Import[] {
  const found: Import[] = []
  const collect = (pattern: RegExp, kindOf: (keyword: string | undefined) => Import['kind']): void => {
    for (const match of code.matchAll(pattern)) {
      const { keyword, names, quote } = match.groups ?? {}
      const start = match.index + match[0].length
      const specifier = quote ? text.slice(start, code.indexOf(quote, start)) : ''
      const isTypeOnly = names?.startsWith('type ') ?? false
      found.push({ specifier, kind: kindOf(keyword), isTypeOnly, line: lineAt(text, match.index) })
    }
  }
  collect(STATIC_IMPORT, (keyword) => (keyword === 'export' ? 'export' : 'import'))
  collect(BARE_IMPORT, () => 'import')
  collect(DYNAMIC_IMPORT, () => 'dynamic')
  collect(COMPUTED_IMPORT, () => 'dynamic')
  return found
}

type Span = readonly [start: number, end: number]

// A slash begins a pattern where a value may begin; after a name, a number or a closing bracket it divides.
const BEFORE_PATTERN =
  /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|throw|await|yield|else))\s*$/
const PATTERN = /\/(?:\[(?:\\.|[^\]\\\n])*\]|\\.|[^/[\\\n])+\//y
const STRING = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/y
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y
const TEMPLATE_TEXT = /(?:\\[\s\S]|\$(?!\{)|[^`\\$])*/y

function blank(text: string): { code: string; spans: Span[]; comments: Span[] } {
  const spans: Span[] = []
  const comments: Span[] = []
  // One entry for each open template expression: how many braces are open inside it.
  const braces: number[] = []
  let code = ''
  let at = 0

  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at
    return pattern.exec(text)?.[0] ?? ''
  }
  const hide = (length: number): void => {
    code += text.slice(at, at + length).replace(/[^\n]/g, ' ')
    at += length
  }
  const keep = (length: number): void => {
    code += text.slice(at, at + length)
    at += length
  }
  const template = (): void => {
    hide(take(TEMPLATE_TEXT).length)
    if (text[at] === '`') keep(1)
    else if (at < text.length) {
      keep(2)
      braces.push(0)
    }
  }

  while (at < text.length) {
    const char = text[at] ?? ''
    const comment = char === '/' ? take(COMMENT) : ''
    const pattern =
      char === '/' && comment === '' && BEFORE_PATTERN.test(code.slice(-40)) ? take(PATTERN) : ''
    const string = char === "'" || char === '"' ? take(STRING) : ''
    const depth = braces.at(-1)
    if (comment) comments.push([at, at + comment.length])
    if (comment || pattern) hide((comment || pattern).length)
    else if (string) {
      spans.push([at + 1, at + string.length - 1])
      keep(1)
      hide(string.length - 2)
      keep(1)
    } else if (char === '`') {
      keep(1)
      template()
    } else if (char === '}' && depth === 0) {
      braces.pop()
      keep(1)
      template()
    } else {
      if (depth !== undefined && char === '{') braces[braces.length - 1] = depth + 1
      if (depth !== undefined && char === '}') braces[braces.length - 1] = depth - 1
      keep(1)
    }
  }
  return { code, spans, comments }
}
