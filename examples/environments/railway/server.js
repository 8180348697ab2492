import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const routes = JSON.parse(readFileSync('routes.json', 'utf8'))
createServer(({ url }, response) => {
  response.statusCode = Object.hasOwn(routes, url) ? 200 : 404
  response.end(process.env.SHOP)
}).listen(4191, '127.0.0.1')
