/** Compiled code that is kept from one call to the next: it saves a third of each. */
import { existsSync, statSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

/**
 * SECURITY: what lies there is run, so it lies where nobody else can write: beside the program for its owner, else in the state directory. Node's own
 * choice is one directory in /tmp for everybody, which belongs to the first who came.
 */
export function keepCompiled(home: string): void {
  const program = import.meta.dirname
  const isOurs = statSync(program).uid === process.getuid?.()
  if (isOurs) enableCompileCache(join(program, '.compiled'))
  else if (existsSync(home)) enableCompileCache(join(home, 'cache', 'compiled'))
}
