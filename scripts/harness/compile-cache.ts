// Loaded before each test file, so that test files share compiled code. NODE_COMPILE_CACHE would do the same,
// but the programs under test would inherit it.

import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

enableCompileCache(join(import.meta.dirname, '..', '..', '.cache', 'compiled-tests'))
