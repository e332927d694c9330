class A { constructor(private x?: number) {} }
