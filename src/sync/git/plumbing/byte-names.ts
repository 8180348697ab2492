/**
 * File names as git stores them: bytes. They are kept as strings with one character per byte, so that no name
 * changes, and are decoded only for display.
 */
import { join } from 'node:path'
import { replaceHidden } from '../../../util/hidden-characters.ts'

export type ByteName = string

/** Splits git's output, in which each name ends with a NUL byte. */
export function byteNames(output: Buffer): ByteName[] {
  const parts = output.toString('latin1').split('\0')
  parts.pop()
  return parts
}

export function bytesOf(name: ByteName): Buffer {
  return Buffer.from(name, 'latin1')
}

export function byteName(text: string): ByteName {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** A path for the file system, which accepts bytes. */
export function bytePath(root: string, name: ByteName): Buffer {
  return Buffer.concat([Buffer.from(join(root, '/')), bytesOf(name)])
}

/** A list of names for git's standard input. */
export function nulTerminated(names: readonly ByteName[]): Buffer {
  return bytesOf(names.map((name) => `${name}\0`).join(''))
}

/** A name for display. SECURITY: without characters that a terminal interprets. */
export function displayName(name: ByteName): string {
  return replaceHidden(bytesOf(name).toString('utf8'), '\ufffd')
}
