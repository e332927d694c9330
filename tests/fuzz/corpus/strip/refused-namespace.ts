namespace A { const x = 1 }
