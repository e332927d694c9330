import a = require("a")
