/** A TOML file as plain data, read strictly: a mistake is one error that names the file and the place. */
import { readFileSync, statSync } from 'node:fs'
import { parse, TomlError } from 'smol-toml'
import { z } from 'zod'
import { invalid } from '../core/error.ts'
import { nearest } from '../util/nearest.ts'

const LONGEST_BYTES = 1024 * 1024

/** Undefined where there is no such file. */
export function readToml<T>(file: string, schema: z.ZodType<T>): T | undefined {
  const text = readText(file)
  if (text === undefined) return undefined
  let data: unknown
  try {
    data = parse(text)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const what = error.message.split('\n')[0]?.replace(/^Invalid TOML document: /, '')
    throw invalid('file.malformed', `${file}:${error.line}:${error.column}: ${what}`)
  }
  const result = schema.safeParse(data)
  if (result.success) return result.data
  throw refusal(file, result.error, schema)
}

/** SECURITY: CF-02. A project's file may be a link to anything, or a device that never ends: only plain files of some size are read. */
function readText(file: string): string | undefined {
  try {
    const { size } = statSync(file)
    if (!statSync(file).isFile() || size > LONGEST_BYTES)
      throw invalid('file.malformed', `${file} is not a file of at most ${LONGEST_BYTES} bytes`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function refusal(file: string, error: z.ZodError, schema: z.ZodType): Error {
  const issue = deepest(error.issues[0])
  const path = issue?.path.map(String) ?? []
  if (issue?.code === 'unrecognized_keys') {
    const key = issue.keys[0] ?? ''
    const near = nearest(key, keysAt(schema, path))
    const where = [...path, key].map(printable).join('.')
    return invalid('file.unknown_key', `${file}: there is no key ${where}`, near && `did you mean ${near}?`)
  }
  const where = path.map(printable).join('.')
  return invalid('file.malformed', `${file}: ${where ? `${where}: ` : ''}${issue?.message ?? 'is malformed'}`)
}

type Issue = z.core.$ZodIssue

/** Of a value that may be one of several things, what is wrong with the nearest of them. */
function deepest(issue: Issue | undefined): Issue | undefined {
  if (issue?.code !== 'invalid_union') return issue
  const inner = issue.errors.flat().find(({ code }) => code !== 'invalid_type')
  return inner ? { ...inner, path: [...issue.path, ...inner.path] } : issue
}

function keysAt(schema: z.ZodType, path: readonly string[]): string[] {
  let at: unknown = schema
  for (const step of path) at = shapeOf(at)?.[step]
  return Object.keys(shapeOf(at) ?? {})
}

function shapeOf(schema: unknown): Record<string, unknown> | undefined {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return shapeOf(schema.unwrap())
  return schema instanceof z.ZodObject ? schema.shape : undefined
}

/** It comes from a project's file and goes to a terminal. */
function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?').slice(0, 60)
}
