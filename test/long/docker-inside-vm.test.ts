/** A Docker engine inside a virtual machine. With emulation, starting a container takes seconds. */
import { ENGINE_LEVELS, engineOptions, homeWithEngine } from '../support/docker-inside.ts'
import { testEngineInside } from '../support/docker-inside-cases.ts'

for (const level of ENGINE_LEVELS.filter(({ isolation }) => isolation === 'vm'))
  testEngineInside({
    where: 'in a virtual machine',
    skip: level.skip,
    savesMemory: true,
    connections: 20,
    open: async (internet) => {
      const { home, image } = await homeWithEngine(level)
      return { world: internet.world({}, home), options: engineOptions(level, image) }
    },
  })
