console.log(JSON.stringify(['one', 'two', process.env.GREETING]))
