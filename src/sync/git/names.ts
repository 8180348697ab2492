/**
 * Names of files as git has them: bytes. They are kept as strings of one character a byte, so that each stays what it is, and turned only to
 * be shown.
 */
import { join } from 'node:path'
import { replaceHidden } from '../../util/hidden-characters.ts'

export type ByteName = string

/** Parts of git's output that ends each with a zero byte. */
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

/** For a path of the file system, which takes bytes. */
export function pathOf(root: string, name: ByteName): Buffer {
  return Buffer.concat([Buffer.from(join(root, '/')), bytesOf(name)])
}

/** As a list for git's standard input. */
export function listed(names: readonly ByteName[]): Buffer {
  return bytesOf(names.map((name) => `${name}\0`).join(''))
}

/** What a person may read; SECURITY: without characters that a terminal obeys. */
export function shown(name: ByteName): string {
  return replaceHidden(bytesOf(name).toString('utf8'), '\ufffd')
}
