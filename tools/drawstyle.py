"""The look of a fabric's drawing.

Light: ColorBrewer's BuPu, then vermilion; dark: a cut of inferno, then sky blue.  In both, luminance alone
tells the order, so the ramp reads the same with any kind of colour vision; what failed is dashed as well.
"""

STYLE = """
.gw-fabric{color:#1d2129;--paper:#fff;font:11px system-ui,sans-serif;max-width:100%;height:auto}
.gw-fabric text{fill:currentColor;text-anchor:middle;dominant-baseline:central}
.gw-fabric text.note{text-anchor:start}
.gw-fabric text.small{font-size:10px;fill-opacity:.8}
.gw-fabric text.said{font-weight:600;stroke:var(--paper);stroke-width:4px;paint-order:stroke}
.gw-fabric .switch{fill:#eef1f6;stroke:#6b7280}
.gw-fabric .host{fill:var(--paper);stroke:currentColor;stroke-opacity:.7}
.gw-fabric .hit{stroke:#000;stroke-opacity:0;stroke-width:7;fill:none}
.gw-fabric .lane{stroke-linecap:round;fill:none}
.gw-fabric .worst{stroke:#d55e00;stroke-opacity:.45;stroke-width:12;stroke-linecap:round;fill:none}
.gw-fabric .plain{stroke:#8a93a3;stroke-width:1.2}
.gw-fabric .load0{stroke:#ccd3dd;stroke-width:1.2}
.gw-fabric .load1{stroke:#9ebcda;stroke-width:1.8}
.gw-fabric .load2{stroke:#8c96c6;stroke-width:2.4}
.gw-fabric .load3{stroke:#88419d;stroke-width:3}
.gw-fabric .load4{stroke:#4d004b;stroke-width:3.4}
.gw-fabric .load5{stroke:#d55e00;stroke-width:4}
.gw-fabric .failed{stroke:#d7191c;stroke-width:2;stroke-dasharray:6 5;stroke-linecap:butt}
.gw-fabric.dense .hit{stroke-width:3}
.gw-fabric.dense .plain{stroke-width:.7;stroke-opacity:.6}
.gw-fabric.dense .load0{stroke-width:.6}
.gw-fabric.dense .load1{stroke-width:.7;stroke-opacity:.8}
.gw-fabric.dense .load2{stroke-width:1;stroke-opacity:.8}
.gw-fabric.dense .load3{stroke-width:1.3;stroke-opacity:.85}
.gw-fabric.dense .load4{stroke-width:1.6}
.gw-fabric.dense .load5{stroke-width:2.2}
.gw-fabric.dense .worst{stroke-width:8}
.gw-fabric g:hover>.lane{stroke-width:5;stroke-opacity:1}
@media (prefers-color-scheme:dark){
.gw-fabric{color:#e4e7ec;--paper:#14171d}
.gw-fabric .switch{fill:#262b35;stroke:#9aa3b2}
.gw-fabric .worst{stroke:#56b4e9}
.gw-fabric .load0{stroke:#414957}
.gw-fabric .load1{stroke:#7d2f6d}
.gw-fabric .load2{stroke:#c43c4e}
.gw-fabric .load3{stroke:#f37819}
.gw-fabric .load4{stroke:#fcc92b}
.gw-fabric .load5{stroke:#56b4e9}
.gw-fabric .failed{stroke:#ff8a80}
}
"""
