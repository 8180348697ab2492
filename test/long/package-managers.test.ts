import { after } from 'node:test'
import { describeManagers } from '../support/package-managers.ts'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

describeManagers(world, ['apt', 'maven'])
