let x = <any>y
