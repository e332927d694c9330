let π: Ünï<"💥"> = "é" as Ünï;
let z /* ü */ : T = 1
