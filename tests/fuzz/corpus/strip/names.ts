object.type = 1; type; type = 2; declare; declare = 1; namespace; abstract = 1; module = 1
let type = 1, declare = 2, readonly = 3, abstract = 4, as = 5, satisfies = 6, is = 7, infer = 8, keyof = 9, of = 10, async = 11, get = 12, set = 13, any = 14, number = 15
x = { type: 1, declare, as: 2, public: 3, readonly, abstract() {}, get() {}, set(a: number) {}, async() {}, static: 1 }
