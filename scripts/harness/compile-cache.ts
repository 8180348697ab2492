// Loaded before each test file: what was compiled for one serves the others. Not by NODE_COMPILE_CACHE, which the programs under test would inherit.

import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

enableCompileCache(join(import.meta.dirname, '..', '..', '.cache', 'compiled-tests'))
